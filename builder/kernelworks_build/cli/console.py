"""How `kernel-build` speaks: data on stdout, all else on stderr; live progress on a terminal, lines elsewhere."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from textwrap import fill
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichBar
from rich.table import Table
from rich.text import Text

from kernelworks.errors import KernelworksError
from kernelworks_build.progress import Advance, Progress

__all__ = [
    "JsonOption",
    "live_progress",
    "megabytes",
    "note",
    "print_error",
    "print_json",
    "print_table",
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
_LINE_SECONDS = 10.0
_SHORT_SECONDS = 1.0  # what takes no longer is not told to be over
_RULE = 3  # columns of a terminal between two of a table


def print_json(document: Any) -> None:
    """Print `document` as the one thing on stdout."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout: aligned text for a log or a pipe, on a terminal boxes, or a list where these are wider.

    No word is ever broken, and the first column never: names are copied from there.
    """
    cells = list(rows)
    console = _console()
    if not sys.stdout.isatty():
        sys.stdout.write(_aligned(title, columns, cells))
    elif widths := _widths([columns, *cells], console.width - 1 - _RULE * len(columns)):
        table = Table(header_style="bold")
        for column, width in zip(columns, widths, strict=True):
            table.add_column(column, width=width)
        for row in cells:
            table.add_row(*map(escape, row))
        console.print(f"[bold]{escape(title)}[/]", soft_wrap=True, highlight=False)
        console.print(table)
    else:
        sys.stdout.write(_listed(title, columns, cells, console.width))


def _widths(rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Widths of columns that fit into `room` without breaking a word; None where there are none."""
    columns = list(zip(*rows, strict=True))
    widths = [max(len(line) for cell in column for line in cell.splitlines() or [""]) for column in columns]
    words = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    slack = [0, *(width - word for width, word in zip(widths[1:], words[1:], strict=True))]
    while sum(widths) > room and any(slack):
        loosest = slack.index(max(slack))
        widths[loosest] -= 1
        slack[loosest] -= 1
    return widths if sum(widths) <= room else None


def _listed(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    """A table as a list: a line per cell, and more where it is wider than `width`."""

    def folded(key: str, cell: str) -> str:
        lines = f"{key}: {cell}".replace("\n", "\n  ").splitlines()
        whole = partial(fill, width=width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(map(whole, lines))

    blocks = ("\n".join(map(folded, columns, row)) for row in rows)
    return "\n\n".join([title, *blocks, ""])


def _aligned(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as text; a cell of several lines makes its row as high."""
    lines = [line for row in (columns, *rows) for line in zip_longest(*map(str.splitlines, row), fillvalue="")]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join([title, *padded, ""])


def _console(*, stderr: bool = False) -> Console:
    """The terminal; with NO_COLOR it is sent no escape code at all, bold included."""
    return Console(stderr=stderr, color_system=None if _no_color() else "auto")


def _no_color() -> bool:
    return bool(os.environ.get("NO_COLOR"))


def note(text: str) -> None:
    """Print one line on stderr."""
    sys.stderr.write(f"{text}\n")


def print_error(error: KernelworksError, *, as_json: bool) -> None:
    """Print an error: as words on stderr, or as the JSON document on stdout."""
    if as_json:
        print_json({"error": error.to_json()})
        return
    label = "" if "diagnostics" in error.context else "[bold red]error[/]: "  # each line has its place and severity
    print_line = partial(_console(stderr=True).print, soft_wrap=True, highlight=False)
    print_line(f"{label}{escape(error.message)}")
    if error.hint:
        print_line(f"[bold cyan]hint[/]: {escape(error.hint)}")


def megabytes(size: float) -> str:
    """`1234567` bytes as `1.2 MB`."""
    return f"{size / 1e6:.1f} MB"


@contextmanager
def live_progress() -> Iterator[Progress]:
    """The listener that fits stderr: bars on a terminal that takes escape codes, a line every ten seconds elsewhere."""
    if sys.stderr.isatty() and not _no_color():
        with _Bars() as bars:
            yield bars
    else:
        yield _Lines()


class _Bars:
    """Bars on a terminal, one line per running task."""

    def __init__(self) -> None:
        console = _console(stderr=True)
        label = TextColumn("{task.description}")
        rate = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(compact=True))
        self._bytes = RichBar(label, BarColumn(), *rate)
        self._steps = RichBar(label, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), _TimeLeft())
        self._live = Live(Group(self._steps, self._bytes), console=console, transient=True)
        self._open = 0
        self._lock = threading.Lock()
        self._console = console

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @contextmanager
    def task(self, label: str, total: int | None, unit: str, seconds: float | None = None) -> Iterator[Advance]:
        bar = self._bytes if unit == "B" else self._steps
        with self._lock:
            if self._open == 0:
                self._live.start()
            self._open += 1
        task = bar.add_task(label, total=total, seconds=seconds)
        try:
            yield lambda amount: bar.advance(task, amount)
        finally:
            bar.remove_task(task)
            with self._lock:
                self._open -= 1
                if self._open == 0:
                    self._live.stop()

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)


class _TimeLeft(ProgressColumn):
    """What is left of the time that a task is known to take."""

    def render(self, task: Task) -> Text:
        return Text(_left(task.fields["seconds"], task.elapsed or 0))


def _left(seconds: float | None, elapsed: float) -> str:
    """What is left of `seconds`, in words; nothing where they are over, or nobody knows them."""
    return f"about {seconds - elapsed:.0f} s left" if seconds and elapsed < seconds else ""


class _Lines:
    """A line when a task starts, one every ten seconds while it runs, and one when it ends unless that is at once."""

    @contextmanager
    def task(self, label: str, total: int | None, unit: str, seconds: float | None = None) -> Iterator[Advance]:
        start = said = time.monotonic()
        done = 0
        size = total and (megabytes(total) if unit == "B" else f"{total} {unit if total > 1 else unit[:-1]}")
        note(f"{label}: {size}" if size else label)

        def words(elapsed: float) -> str:
            if unit == "B":
                whole = f" of {megabytes(total)}" if total else ""
                return f"{label}: {megabytes(done)}{whole} at {megabytes(done / max(elapsed, 1e-3))}/s"
            count = f"{done}{f' of {total}' if total else ''} {unit} in " if done or total else ""
            return f"{label}: {count}{elapsed:.1f} s"

        def advance(amount: int) -> None:
            nonlocal done, said
            done += amount
            now = time.monotonic()
            if done != total and now - said > _LINE_SECONDS:
                said = now
                note(", ".join(filter(None, [words(now - start), _left(seconds, now - start)])))

        yield advance
        elapsed = time.monotonic() - start
        if elapsed > _SHORT_SECONDS:
            note(words(elapsed))

    def note(self, text: str) -> None:
        note(text)
