"""What is shown while something runs: bars of all tasks on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kernelworks_build.cli import console

NESTED = """
from kernelworks_build.cli.console import live_progress
with live_progress() as progress:
    with progress.task("all variants", 2, "variants") as outer:
        with progress.task("fetching", 1000, "B") as inner:
            inner(500)
            progress.note("a note")
        outer(1)
"""
KNOWN = """
from kernelworks_build.cli.console import live_progress
with live_progress() as progress, progress.task("compile", 4, "steps", {seconds}) as advance:
    advance(1)
    progress.note("a note")
"""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock says next, for as long as there is more than one time left."""
    times = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: times.pop(0) if len(times) > 1 else times[0])
    return times


def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    yield from capsys.readouterr().err.splitlines()


def test_a_stage_is_named_when_it_starts_and_its_end_is_said_where_it_took_long(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with console.live_progress() as progress:
        with progress.task("fetching 2 packages", 3_000_000, "B") as advance:
            assert list(lines(capsys)) == ["fetching 2 packages: 3.0 MB"]
            clock[:] = [2.0]
            advance(3_000_000)
        with progress.task("unpacking host", None, "files"):
            clock[:] = [6.0]
        with progress.task("audit", None, "rules"):
            pass
    assert list(lines(capsys)) == [
        "fetching 2 packages: 3.0 MB of 3.0 MB at 1.5 MB/s",
        "unpacking host",
        "unpacking host: 4.0 s",
        "audit",
    ]


@pytest.mark.parametrize(("seconds", "left"), [(90.0, ", about 70 s left"), (15.0, ""), (None, "")])
def test_what_is_left_is_said_where_it_is_known_how_long_a_task_takes(
    clock: list[float], capsys: pytest.CaptureFixture[str], seconds: float | None, left: str
) -> None:
    with console.live_progress() as progress, progress.task("compile", 4, "steps", seconds) as advance:
        clock[:] = [20.0]
        advance(1)
        clock[:] = [60.0]
        advance(3)
    assert list(lines(capsys)) == [
        "compile: 4 steps",
        f"compile: 1 of 4 steps in 20.0 s{left}",
        "compile: 4 of 4 steps in 60.0 s",
    ]


@pytest.mark.parametrize(("seconds", "words"), [(3600.0, " s left"), (None, "")])
def test_bars_say_what_is_left_on_the_same_terms(seconds: float | None, words: str) -> None:
    shown = on_a_terminal(KNOWN.format(seconds=seconds))
    assert "compile" in shown
    assert ("left" in shown) == bool(words)
    assert words in shown


def test_a_terminal_shows_tasks_of_both_kinds_at_once_and_keeps_notes() -> None:
    shown = on_a_terminal(NESTED)
    assert "a note" in shown
    assert any("fetching" in frame and "0.5/1.0 kB" in frame for frame in shown.split("\x1b[2K"))
    assert "all variants" in shown


def on_a_terminal(code: str) -> str:
    """All that `code` sends to a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": ""}
    with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        assert process.wait() == 0
    os.close(ours)
    return shown.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the other end is closed
        return b""
