"""What a build says while it runs: each phase of each variant, and whether anything was made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def test_the_first_build_of_pure_python_is_packed_and_the_second_is_found(
    kernel_build: Callable[..., Any], fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    kernel_build("init", "toy-kernel", "--template", "triton", "--backends", "cpu", "--dir", tmp_path / "toy")
    first = kernel_build("build", tmp_path / "toy", "--json", env=fresh_cache)
    assert not first.document["variants"][0]["cached"]
    phases = re.findall(r"^(\w+) torch-cpu$", first.stderr, re.MULTILINE)
    assert phases == ["audit", "pack"]
    assert "torch-cpu: packed" in first.stderr
    second = kernel_build("build", tmp_path / "toy", "--json", env=fresh_cache)
    assert second.document["variants"][0]["cached"]
    assert "torch-cpu: found in the cache" in second.stderr
