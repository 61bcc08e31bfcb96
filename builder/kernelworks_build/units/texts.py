"""The files of a kernel that a unit may read, found by the names in them before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelworks_build.units import directives

__all__ = ["own_files", "reached"]

_SOURCE = "/src/"


def own_files(folder: Path) -> dict[str, Path]:
    """Every file below `folder`, where the kernel's sources lie, by its relative path."""
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def reached(unit: Mapping[str, Any], files: Mapping[str, Path]) -> Iterator[bytes]:
    """The texts of the unit's source and of all of `files` that it may include, wherever the search would end."""
    source = unit["source"].removeprefix(_SOURCE)
    waiting, seen = [source], {source}
    while waiting:
        text = files[waiting.pop()].read_bytes()
        yield text
        tails = {re.sub(r"^(?:\.{1,2}/)*", "", name) for name in directives.includes(text)}
        new = {path for path in files if path not in seen and any(f"/{path}".endswith(f"/{tail}") for tail in tails)}
        seen |= new
        waiting += sorted(new)
