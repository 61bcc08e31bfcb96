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
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as RichBar
from rich.table import Table

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
_NARROW = 80  # columns below which a table is a list


def print_json(document: Any) -> None:
    """Print `document` as the one thing on stdout."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on stdout: aligned text for a log or a pipe, boxes on a terminal, a list on a narrow one."""
    cells = list(rows)
    console = _console()
    if not sys.stdout.isatty():
        sys.stdout.write(_aligned(title, columns, cells))
    elif console.width < _NARROW:
        blocks = ("\n".join(f"{key}: {cell}" for key, cell in zip(columns, row, strict=True)) for row in cells)
        sys.stdout.write("\n\n".join([title, *blocks]) + "\n")
    else:
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
        for position, column in enumerate(columns):
            table.add_column(column, overflow="fold", no_wrap=position == 0)
        for row in cells:
            table.add_row(*(escape(cell) for cell in row))
        console.print(table)


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
        left = TimeRemainingColumn(compact=True)
        self._bytes = RichBar(label, BarColumn(), DownloadColumn(), TransferSpeedColumn(), left)
        self._steps = RichBar(label, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), left, TextColumn("left"))
        self._live = Live(Group(self._steps, self._bytes), console=console, transient=True)
        self._open = 0
        self._lock = threading.Lock()
        self._console = console

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @contextmanager
    def task(self, label: str, total: int | None, unit: str) -> Iterator[Advance]:
        bar = self._bytes if unit == "B" else self._steps
        with self._lock:
            if self._open == 0:
                self._live.start()
            self._open += 1
        task = bar.add_task(label, total=total)
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


class _Lines:
    """One line when a task ends, and one every ten seconds while it runs."""

    @contextmanager
    def task(self, label: str, total: int | None, unit: str) -> Iterator[Advance]:
        start = said = time.monotonic()
        done = 0

        def words() -> str:
            elapsed = time.monotonic() - start
            if unit == "B":
                whole = f" of {megabytes(total)}" if total else ""
                return f"{label}: {megabytes(done)}{whole} at {megabytes(done / max(elapsed, 1e-3))}/s"
            count = f"{done}{f' of {total}' if total else ''} {unit} in " if done or total else ""
            left = f", about {elapsed / done * (total - done):.0f} s left" if total and 0 < done < total else ""
            return f"{label}: {count}{elapsed:.1f} s{left}"

        def advance(amount: int) -> None:
            nonlocal done, said
            done += amount
            if done != total and time.monotonic() - said > _LINE_SECONDS:
                said = time.monotonic()
                note(words())

        yield advance
        note(words())

    def note(self, text: str) -> None:
        note(text)
