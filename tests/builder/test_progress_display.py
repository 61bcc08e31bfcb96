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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock says next, for as long as there is more than one time left."""
    times = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: times.pop(0) if len(times) > 1 else times[0])
    return times


def lines(capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    yield from capsys.readouterr().err.splitlines()


def test_a_long_task_says_how_long_it_will_take_and_the_end_is_said_once(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    clock[:] = [0.0, 20.0]
    with console.live_progress() as progress, progress.task("compile", 4, "steps") as advance:
        advance(1)
        clock[:] = [60.0]
        advance(3)
    assert list(lines(capsys)) == [
        "compile: 1 of 4 steps in 20.0 s, about 60 s left",
        "compile: 4 of 4 steps in 60.0 s",
    ]


def test_a_short_task_says_its_end_alone(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    clock[:] = [0.0, 1.0]
    with console.live_progress() as progress, progress.task("compile", 4, "steps") as advance:
        advance(4)
    assert list(lines(capsys)) == ["compile: 4 of 4 steps in 1.0 s"]


def test_a_terminal_shows_tasks_of_both_kinds_at_once_and_keeps_notes() -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": ""}
    with subprocess.Popen([sys.executable, "-c", NESTED], stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        assert process.wait() == 0
    os.close(ours)
    frames = shown.decode().split("\x1b[2K")
    assert "a note" in shown.decode()
    assert any("fetching" in frame and "0.5/1.0 kB" in frame for frame in frames)
    assert "all variants" in shown.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the other end is closed
        return b""
