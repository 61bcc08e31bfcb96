"""Downloads over time as a plot: bars in a box that stretches, and the same numbers by weeks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

__all__ = ["DAYS", "HEIGHT", "Bar", "Plot", "plot"]

DAYS = 91
"""Thirteen weeks."""
HEIGHT = 100
_WEEK = 7
_STEP = 10
_BAR = 8
_LEAST = 2  # so that one download is seen beside thousands


@dataclass(frozen=True)
class Bar:
    """One day with downloads; its place in the box, in the box's own units."""

    day: date
    count: int
    x: int
    y: float
    width: int
    height: float


@dataclass(frozen=True)
class Plot:
    """Bars in a box of `width` x `HEIGHT`, whose top stands for `most` downloads on one day.

    `weeks` are (first day, downloads), the newest first.
    """

    width: int
    most: int
    first: date
    bars: tuple[Bar, ...]
    weeks: tuple[tuple[date, int], ...]

    @property
    def total(self) -> int:
        """All downloads that it shows."""
        return sum(bar.count for bar in self.bars)


def plot(counts: Mapping[date, int]) -> Plot:
    """The plot of the downloads on consecutive days, the oldest first."""
    days = list(counts)
    most = max(counts.values())
    bars = (_bar(day, counts[day], at, most) for at, day in enumerate(days) if counts[day])
    weeks = [days[start : start + _WEEK] for start in range(0, len(days), _WEEK)]
    return Plot(
        width=_STEP * len(days),
        most=most,
        first=days[0],
        bars=tuple(bars),
        weeks=tuple((week[0], sum(counts[day] for day in week)) for week in reversed(weeks)),
    )


def _bar(day: date, count: int, at: int, most: int) -> Bar:
    height = round(max(_LEAST, HEIGHT * count / most), 1)
    return Bar(day, count, _STEP * at + (_STEP - _BAR) // 2, round(HEIGHT - height, 1), _BAR, height)
