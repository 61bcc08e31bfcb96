"""What is torch's: `torch_symbols.json`, shell patterns of its libraries and one expression for its symbols."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["library_patterns", "symbol_pattern"]


def library_patterns() -> tuple[str, ...]:
    """Shell patterns of the files that define torch's symbols and are loaded by `import torch`."""
    return tuple(_data()["libraries"])


@cache
def symbol_pattern() -> re.Pattern[str]:
    """What is torch's by its name, even where no release exports it: members of its namespaces, and the C shims."""
    return re.compile(_data()["symbols"])


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(__file__).with_name("torch_symbols.json").read_bytes())
    return data
