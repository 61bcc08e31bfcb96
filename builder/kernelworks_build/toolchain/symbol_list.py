"""What a torch release exports: the list beside its lock, which `torch_sdk` writes."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

__all__ = ["symbols"]


@cache
def symbols(path: Path) -> frozenset[str]:
    """The mangled names in the list at `path`."""
    return frozenset(lzma.decompress(path.read_bytes()).decode().splitlines())
