"""Rows as aligned text, as wide as the terminal where there is one."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

__all__ = ["table", "terminal_width"]

_GAP = "  "
_NARROWEST = 24
"""Of a wrapped column: below, lines too long read better than words one below the other."""


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is, or None where it is none: a pipe has no width."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Columns two blanks apart, the head in capitals; the last column is not padded, and wrapped at `width`.

    Only blanks are places to wrap, so that names and digests can be copied.
    """
    lines = [[name.upper() for name in head], *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    if width is not None:
        before = sum(widths[:-1]) + len(_GAP) * (len(head) - 1)
        lines = [part for line in lines for part in _wrapped(line, max(_NARROWEST, width - before))]
    return "\n".join(_GAP.join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _wrapped(line: Sequence[str], room: int) -> list[list[str]]:
    *others, last = line
    parts = textwrap.wrap(last, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [[*others, parts[0]], *([*("" for _ in others), part] for part in parts[1:])]
