"""What a measurement says: a value with its unit, and how it compares with a rival that was measured beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "quantile", "table"]


@dataclass(frozen=True)
class Figure:
    """One value; `ratio` is value to value of the `rival`, where there is one."""

    room: str
    name: str
    value: float
    unit: str
    ratio: float | None = None
    rival: str = ""


def quantile(values: Sequence[float], part: float) -> float:
    """The value that `part` of the values lie below."""
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def table(figures: Sequence[Figure]) -> str:
    """One line per figure."""
    lines = []
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}x"
        value = f"{figure.value:>12,.1f} {figure.unit:<9}"
        lines.append(f"{figure.room:<10}{figure.name:<40}{value}{ratio:>7}  {figure.rival}".rstrip())
    return "\n".join(lines)
