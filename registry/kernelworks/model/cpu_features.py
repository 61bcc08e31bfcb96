"""What levels of CPU features stand for: `cpu_features.json` (x86-64 psABI); flags as the Linux kernel names them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

__all__ = ["levels_of", "single_flags"]


def single_flags(features: Iterable[str]) -> frozenset[str]:
    """`features` with every level replaced by the flags that it stands for."""
    levels = _levels()
    return frozenset(flag for one in features for flag in (single_flags(levels[one]) if one in levels else (one,)))


def levels_of(flags: Collection[str]) -> tuple[str, ...]:
    """The levels that a CPU with `flags` has, the lowest first."""
    return tuple(level for level in _levels() if single_flags([level]) <= frozenset(flags))


@cache
def _levels() -> dict[str, list[str]]:
    levels: dict[str, list[str]] = json.loads(Path(__file__).with_name("cpu_features.json").read_bytes())
    return levels
