"""Runs one command, holds it and all of its descendants to their limits, and accounts for them.

A program of its own, started by `process.py` with one JSON document on standard input: an order. It shares
nothing with the builder's threads, adopts every process that the command orphans (so that none escapes the
limits, the accounts or the end), and ends all of them when the builder dies, by whatever signal.
"""

# ruff: noqa: PTH123, PTH208  # importing pathlib would double the time to start

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
import warnings  # noqa: F401  # `execvpe` imports it, which is too late after a change of root
from collections.abc import Iterator
from typing import Any, NoReturn, TypedDict

TICK_SECONDS = 0.1
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
SCHEDULER = "ninja"  # what it starts is accounted for one by one

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38


class Job(TypedDict):
    """One command that the scheduler started: what it is and what it used so far, as seen at each tick."""

    command: str
    cpu_seconds: float
    max_rss_bytes: int


def main() -> None:
    order = json.load(sys.stdin)
    os.set_inheritable(order["verdict_fd"], False)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != order["builder_pid"]:
        return  # the builder died before it could be watched
    verdict = _run(order)
    with open(order["verdict_fd"], "w", encoding="utf-8") as file:
        json.dump(verdict, file)


def _run(order: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + order["wall_seconds"]
    pid, error = _start(order)
    ended_by = None
    jobs: dict[str, Job] = {}
    while (status := _reap(pid)) is None:
        if ended_by := _reason_to_end(deadline, order["memory_bytes"], jobs):
            status = -signal.SIGKILL
            break
    _end_all()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "error": error,
        "status": status,
        "ended_by": ended_by,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "max_rss_bytes": used.ru_maxrss * 1024,
        "jobs": list(jobs.values()),
    }


def _start(order: dict[str, Any]) -> tuple[int, str]:
    """The command's process id, and why it could not be started or an empty text."""
    read, write = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        try:
            _become(order)
        except Exception as error:  # noqa: BLE001  # whatever it is: the parent must hear of it
            os.write(write, str(error).encode())
        finally:
            os._exit(127)
    os.close(write)
    with open(read, encoding="utf-8") as file:
        return pid, file.read()


def _become(order: dict[str, Any]) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if order["root"]:
        os.chroot(order["root"])
        os.setgroups([])
        os.setresgid(order["gid"], order["gid"], order["gid"])
        os.setresuid(order["uid"], order["uid"], order["uid"])
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
    os.chdir(order["cwd"])
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606  # without a shell on purpose


def _reap(pid: int) -> int | None:
    """Collects what has ended; the exit code of `pid` where it is among them."""
    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
        if ended[0] == pid:
            return os.waitstatus_to_exitcode(ended[1])
    return None


def _reason_to_end(deadline: float, memory_bytes: int, jobs: dict[str, Job]) -> str | None:
    """Waits until a process ends, at most a tick; then says what must end the command now, if anything."""
    got = signal.sigtimedwait({signal.SIGCHLD, signal.SIGTERM}, TICK_SECONDS)
    if got and got.si_signo == signal.SIGTERM:
        return "builder"
    if _account(jobs) > memory_bytes:
        return "memory"
    if time.monotonic() > deadline:
        return "time"
    return None


def _end_all() -> None:
    """Kills and collects every descendant, those that are being forked meanwhile too."""
    while True:
        for pid in _descendants():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _account(jobs: dict[str, Job]) -> int:
    """Memory of all descendants, where pages that they share count once for each; `jobs` by process id is kept."""
    total = 0
    by_job: dict[str, list[tuple[float, int]]] = {}
    for pid, job in _descendants_by_job():
        with contextlib.suppress(OSError):  # it has ended
            used = _used(pid)
            total += used[1]
            by_job.setdefault(job, []).append(used)
    by_job.pop("", None)
    for pid, all_used in by_job.items():
        with contextlib.suppress(OSError):
            if pid not in jobs:
                if _read(pid, "comm").strip() == SCHEDULER:
                    continue  # it is not yet what it will be: the next look sees all that it used
                jobs[pid] = Job(command=_read(pid, "cmdline"), cpu_seconds=0, max_rss_bytes=0)
            known = jobs[pid]
            known["cpu_seconds"] = max(known["cpu_seconds"], sum(cpu for cpu, _ in all_used))
            known["max_rss_bytes"] = max(known["max_rss_bytes"], sum(resident for _, resident in all_used))
    return total


def _used(pid: str) -> tuple[float, int]:
    """CPU seconds of a process and of the children that it waited for, and its resident bytes."""
    ticks = _read(pid, "stat").rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / TICKS_A_SECOND, int(_read(pid, "statm").split()[1]) * PAGE_BYTES


def _descendants_by_job() -> Iterator[tuple[str, str]]:
    """Ids of the processes below this one, and of the command of the scheduler that each belongs to, if any."""
    parents = [("self", "")]
    while parents:
        parent, job = parents.pop()
        with contextlib.suppress(OSError):
            starts_jobs = not job and _read(parent, "comm").strip() == SCHEDULER
            children = [(child, child if starts_jobs else job) for child in _children(parent)]
            yield from children
            parents += children


def _descendants() -> Iterator[str]:
    """Ids of the processes below this one, as text."""
    return (pid for pid, _ in _descendants_by_job())


def _children(pid: str) -> Iterator[str]:
    with contextlib.suppress(OSError):  # it has ended
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                yield from file.read().split()


def _read(pid: str, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


if __name__ == "__main__":
    main()
