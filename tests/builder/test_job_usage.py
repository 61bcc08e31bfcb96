"""What each command of ninja used is told apart, also where it lies deep below."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kernelworks_build.action import Limits
from kernelworks_build.sandbox.process import supervise
from kernelworks_build.sandbox.supervise import TICK_SECONDS

BUSY = """
import time

held = bytearray({megabytes} << 20)
while time.process_time() < 0.5:
    pass
"""


def test_memory_and_time_of_each_command_are_those_of_all_its_processes(tmp_path: Path) -> None:
    if not shutil.which("python3"):
        pytest.skip("needs python3 on PATH")
    scheduler = shutil.copy("/bin/sh", tmp_path / "ninja")  # the supervisor goes by the name
    for name, megabytes in (("small", 8), ("large", 200)):
        (tmp_path / f"{name}.py").write_text(BUSY.format(megabytes=megabytes))
    script = "".join(f"sh -c 'python3 {tmp_path}/{name}.py; true'; " for name in ("small", "large"))
    verdict = supervise(
        [str(scheduler), "-c", script], dict(os.environ), Limits(1 << 30, 60), tmp_path / "log", cwd=str(tmp_path)
    )
    small, large = sorted(verdict.jobs, key=lambda job: job.max_rss_bytes)
    assert ("small.py" in small.command, "large.py" in large.command) == (True, True)
    assert large.max_rss_bytes > 200 << 20 > small.max_rss_bytes
    assert min(small.cpu_seconds, large.cpu_seconds) > 0


def test_a_command_that_starts_slowly_is_known_by_what_it_becomes(tmp_path: Path) -> None:
    scheduler = shutil.copy("/bin/sh", tmp_path / "ninja")
    for ticks in (5, 50, 500):  # the supervisor looks meanwhile, if it gets to it
        pause = f"sleep {ticks * TICK_SECONDS}"
        script = f"({pause}; exec sh -c '{pause}; echo -o a.o'); true"  # at first, it is a copy of the scheduler
        verdict = supervise([str(scheduler), "-c", script], dict(os.environ), Limits(1 << 30, 600), tmp_path / "log")
        known = ["-o a.o" in job.command and "exec" not in job.command for job in verdict.jobs]
        if known == [True]:
            break
    assert known == [True]
