"""The examples of docs/layers.md, run from top to bottom as one program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "layers.md"

LAYERS = b"""
from torch import nn


class SiluAndMul(nn.Module):
    def forward(self, x):
        gate, up = x.chunk(2, dim=-1)
        return nn.functional.silu(gate) * up
"""


def test_the_examples_print_what_the_page_says(registry: Any, pack: Any, processes: Any) -> None:
    pytest.importorskip("torch", reason="layers are modules of torch")
    registry.publish("my-org/activation", 1, pack({"__init__.py": b"from . import layers\n", "layers.py": LAYERS}))
    page = PAGE.read_text()
    program = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    out, err = processes.start(program).communicate()
    shown = "".join(re.findall(r"```text\n(.*?)```", page, re.DOTALL))
    commit = re.search(r"commit ([0-9a-f]{12})", out)
    assert commit, err
    assert re.sub(r"commit [0-9a-f]{12}", commit[0], shown) == out
