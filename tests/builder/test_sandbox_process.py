"""The supervisor: output, exit codes, limits and accounts of a command, without any sandbox."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from kernelworks_build.action import Limits
from kernelworks_build.sandbox.process import LINE_CHARACTERS, Verdict, supervise

MIB = 1 << 20
ROOMY = Limits(memory_bytes=512 * MIB, wall_seconds=60)
HOLD_80_MIB = f"{{ head -c {80 * MIB} /dev/zero; sleep 60; }} | tail"
"""`tail` keeps an unfinished line in memory until its input ends."""


def shell(script: str, log: Path, limits: Limits = ROOMY, lines: list[str] | None = None) -> Verdict:
    on_line = None if lines is None else lines.append
    return supervise(["sh", "-c", script], {"PATH": "/usr/bin:/bin"}, limits, log, on_line)


def ends(pid: int) -> bool:
    deadline = time.monotonic() + 300
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_stdout_and_stderr_reach_log_and_listener_in_the_order_of_writing(tmp_path: Path) -> None:
    lines: list[str] = []

    verdict = shell("echo one; echo two >&2; echo three; printf four", tmp_path / "log", lines=lines)

    assert verdict.exit_code == 0
    assert lines == ["one", "two", "three", "four"]
    assert (tmp_path / "log").read_text() == "one\ntwo\nthree\nfour"


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    lines: list[str] = []

    shell(r"printf 'a\377b\303\251\n'", tmp_path / "log", lines=lines)

    assert lines == ["a\ufffdb\u00e9"]
    assert (tmp_path / "log").read_text(encoding="utf-8") == "a\ufffdb\u00e9\n"


def test_a_line_without_end_arrives_in_bounded_pieces_and_whole_in_the_log(tmp_path: Path) -> None:
    lines: list[str] = []

    shell(f"head -c {3 * LINE_CHARACTERS + 5} /dev/zero | tr '\\0' x", tmp_path / "log", lines=lines)

    assert [len(line) for line in lines] == [LINE_CHARACTERS] * 3 + [5]
    assert (tmp_path / "log").stat().st_size == 3 * LINE_CHARACTERS + 5


def test_a_command_that_cannot_be_started_is_told_from_one_that_fails(tmp_path: Path) -> None:
    absent = supervise(["no-such-program"], {"PATH": "/usr/bin"}, ROOMY, tmp_path / "log")
    failing = shell("exit 127", tmp_path / "log")

    assert "No such file" in absent.error
    assert (failing.error, failing.exit_code) == ("", 127)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -SEGV $$", -signal.SIGSEGV),
        ("sh -c 'kill -9 $$'; exit $?", -9),
    ],
)
def test_an_exit_code_is_kept_and_a_signal_is_negative(script: str, expected: int, tmp_path: Path) -> None:
    assert shell(script, tmp_path / "log").exit_code == expected


def test_python_s_ignored_signals_are_not_inherited(tmp_path: Path) -> None:
    assert shell("kill -PIPE $$", tmp_path / "log").exit_code == -signal.SIGPIPE


def test_the_wall_limit_ends_the_command_and_what_it_left_behind(tmp_path: Path) -> None:
    for seconds in (1, 10, 100):  # a slow machine needs longer to begin
        limits = Limits(memory_bytes=ROOMY.memory_bytes, wall_seconds=seconds)

        verdict = shell("(setsid sleep 600 & echo $!); sleep 600", tmp_path / "log", limits)

        assert (verdict.exit_code, verdict.timed_out, verdict.out_of_memory) == (-signal.SIGKILL, True, False)
        if left := (tmp_path / "log").read_text():
            break
    assert ends(int(left))


def test_the_memory_limit_is_for_the_sum_of_all_processes(tmp_path: Path) -> None:
    limits = Limits(memory_bytes=120 * MIB, wall_seconds=60)

    verdict = shell(f"{HOLD_80_MIB} & {HOLD_80_MIB}", tmp_path / "log", limits)

    assert (verdict.exit_code, verdict.timed_out, verdict.out_of_memory) == (-signal.SIGKILL, False, True)
    assert verdict.max_rss_bytes < limits.memory_bytes


def test_a_process_that_outlives_the_command_is_ended_with_it(tmp_path: Path) -> None:
    verdict = shell("(setsid sleep 600 & echo $!)", tmp_path / "log")

    assert verdict.exit_code == 0
    assert ends(int((tmp_path / "log").read_text()))


def test_a_listener_that_raises_ends_the_command_and_is_heard(tmp_path: Path) -> None:
    pids: list[int] = []

    def stop(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        supervise(["sh", "-c", "echo $$; sleep 600"], {"PATH": "/usr/bin:/bin"}, ROOMY, tmp_path / "log", stop)

    assert ends(pids[0])


def test_no_descriptor_of_the_builder_is_inherited(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        shell("ls /proc/$$/fd", tmp_path / "log")
    finally:
        os.close(read)
        os.close(write)

    assert (tmp_path / "log").read_text().split() == ["0", "1", "2"]
