"""The process side of an executor: starts the supervisor, passes the output on, gives the verdict."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from kernelworks_build.action import Action, ActionResult, Executor, JobUsage, Limits
from kernelworks_build.errors import SandboxError
from kernelworks_build.sandbox import layout

__all__ = ["LINE_CHARACTERS", "Verdict", "last_line", "require_own_proc", "result", "signal_aware", "supervise"]

LINE_CHARACTERS = 1 << 16
"""A longer line of output reaches the listener in pieces of this many characters."""

_SUPERVISOR = Path(__file__).with_name("supervise.py")


@dataclass(frozen=True)
class Verdict:
    """How a command ended.

    Attributes:
        error: Why it could not be started, else empty.
        exit_code: Negative signal number where a signal ended it.
        timed_out: The wall limit ended it.
        out_of_memory: The memory limit ended it.
        cpu_seconds: User and system time of it and of all its descendants.
        max_rss_bytes: Peak resident memory of the largest of them.
        jobs: What each command of ninja used.
    """

    error: str
    exit_code: int
    timed_out: bool
    out_of_memory: bool
    cpu_seconds: float
    max_rss_bytes: int
    jobs: tuple[JobUsage, ...]


def require_own_proc() -> None:
    """Refuse a `/proc` that numbers processes otherwise than this process's namespace does.

    It would mislead the supervisor, and bubblewrap as well.

    Raises:
        SandboxError: It is that of an outer sandbox, or missing.
    """
    if Path("/proc/self").resolve().name != str(os.getpid()):
        raise SandboxError(
            "`/proc` is not that of this process's namespace, so no process can be watched",
            hint="give the sandbox or container that this runs in its own one (`bwrap --proc /proc`)",
        )


def supervise(
    argv: Sequence[str],
    env: Mapping[str, str],
    limits: Limits,
    log: Path,
    on_line: Callable[[str], None] | None = None,
    *,
    root: Path | None = None,
    cwd: str = "/",
    pass_fds: Sequence[int] = (),
) -> Verdict:
    """Run `argv` and everything that it starts, to the end of all.

    Args:
        argv: Command and arguments.
        env: Its whole environment.
        limits: What all processes together may use.
        log: Gets stdout and stderr in order, as UTF-8; bytes that are none are replaced.
        on_line: Hears every line. When it raises, all processes are ended and the exception goes on.
        root: The root folder to change into, as the sandbox's user; else both stay as they are.
        cwd: Working folder, as below `root`.
        pass_fds: Descriptors that the command inherits besides stdout and stderr.

    Raises:
        SandboxError: The supervisor was killed.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as verdict:
        order = {
            "argv": list(argv),
            "env": dict(env),
            "memory_bytes": limits.memory_bytes,
            "wall_seconds": limits.wall_seconds,
            "root": str(root) if root else None,
            "uid": layout.UID,
            "gid": layout.GID,
            "cwd": cwd,
            "verdict_fd": verdict.fileno(),
            "builder_pid": os.getpid(),
        }
        _carry_out(order, (verdict.fileno(), *pass_fds), log, on_line)
        verdict.seek(0)
        return _read(verdict.read())


def result(verdict: Verdict, executor: Executor, action: Action, build_dir: Path, log: Path) -> ActionResult:
    """What `executor` reports of `action`, which ended by `verdict`."""
    return ActionResult(
        exit_code=verdict.exit_code,
        timed_out=verdict.timed_out,
        out_of_memory=verdict.out_of_memory,
        log=log,
        build_dir=build_dir,
        cpu_seconds=verdict.cpu_seconds,
        max_rss_bytes=verdict.max_rss_bytes,
        executor=executor.name,
        hermetic=executor.hermetic,
        missing_outputs=layout.missing_outputs(action, build_dir),
        jobs=verdict.jobs,
    )


def last_line(text: str) -> str:
    """The last line of `text`: what a program that failed said of it."""
    return (text.splitlines() or [""])[-1]


def signal_aware(status: int) -> int:
    """The exit code, where 128 + N is read as shells and bubblewrap mean it: signal N ended the command."""
    return 128 - status if status - 128 in signal.valid_signals() else status


def _carry_out(
    order: Mapping[str, object], pass_fds: Sequence[int], log: Path, on_line: Callable[[str], None] | None
) -> None:
    """Start a supervisor, give it `order`, and pass on what its command says until all of it has ended."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", _SUPERVISOR],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
        start_new_session=True,  # the terminal's Ctrl-C reaches the builder alone
    ) as supervisor:
        try:
            _give(order, cast("IO[bytes]", supervisor.stdin))
            _pump(cast("io.BufferedReader", supervisor.stdout), log, on_line)
        except BaseException:
            supervisor.terminate()
            raise


def _give(order: Mapping[str, object], stream: IO[bytes]) -> None:
    with stream:
        stream.write(json.dumps(order).encode())


def _pump(stream: io.BufferedReader, log: Path, on_line: Callable[[str], None] | None) -> None:
    """Copy `stream` into `log` line by line, at most `LINE_CHARACTERS` of it in memory."""
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n")
    with text, log.open("w", encoding="utf-8", newline="", buffering=1) as file:
        while piece := text.readline(LINE_CHARACTERS):
            file.write(piece)
            if on_line:
                on_line(piece.rstrip("\r\n"))


def _read(document: str) -> Verdict:
    if not document:
        raise SandboxError(
            "the supervisor of the sandbox was killed before the command ended",
            hint="see whether the system ran out of memory (`dmesg`), then build with fewer `--jobs`",
        )
    facts = json.loads(document)
    return Verdict(
        error=facts["error"],
        exit_code=signal_aware(facts["status"]),
        timed_out=facts["ended_by"] == "time",
        out_of_memory=facts["ended_by"] == "memory",
        cpu_seconds=facts["cpu_seconds"],
        max_rss_bytes=facts["max_rss_bytes"],
        jobs=tuple(JobUsage(**job) for job in facts["jobs"]),
    )
