"""One process at a time does a thing, where the file system lets it; a dead or silent owner is waited for no longer.

The lock spares work and proves nothing: whoever uses it stays correct without it (bytes are proved by their digest,
folders appear by a rename). So a file system whose locks fail or lie costs a second download, never a wrong kernel.

The kernel of the system drops a `flock` with its owner. Two owners outlive that: one whose fork still holds the
descriptor, and one on another machine of a network file system. The owner writes into the file who it is, and touches
it while it works: a waiter goes on at once where that process of this machine is gone, and after a silence elsewhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["exclusive", "try_lock"]

_BEAT_SECONDS = 5.0
_SILENCE_SECONDS = 30.0
_POLL_SECONDS = 0.01
_LONGEST_POLL_SECONDS = 0.25
_MAX_OWNER_BYTES = 256


def try_lock(descriptor: int) -> bool | None:
    """Whether `descriptor` is locked now: False where another owner has it, None where no lock can be had here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in {errno.EWOULDBLOCK, errno.EACCES} else None
    return True


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """While it lasts, no other process is in one for the same `path`, as far as the module's docstring promises.

    Raises:
        OSError: The lock file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        if _wait(descriptor):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _name(os.getpid()), 0)
            with _beating(path):
                yield
            os.ftruncate(descriptor, 0)
        else:
            yield
    finally:
        os.close(descriptor)


def _wait(descriptor: int) -> bool:
    """Whether the lock was had in the end; False where there is none, or its owner is dead or silent."""
    pause = _POLL_SECONDS
    heard, beat = time.monotonic(), os.fstat(descriptor).st_mtime_ns
    while (locked := try_lock(descriptor)) is False:
        latest = os.fstat(descriptor).st_mtime_ns
        if latest != beat:
            heard, beat = time.monotonic(), latest
        if time.monotonic() - heard > _SILENCE_SECONDS or _is_gone(os.pread(descriptor, _MAX_OWNER_BYTES, 0)):
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_POLL_SECONDS)
    return bool(locked)


@contextmanager
def _beating(path: Path) -> Iterator[None]:
    """Touch `path` while it lasts."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(_BEAT_SECONDS):
            with suppress(OSError):
                os.utime(path)

    thread = threading.Thread(target=beat, name="kernelworks-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _name(pid: int) -> bytes:
    """A process in words that no other machine or container has."""
    try:
        world = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        world = ""
    return f"{os.uname().nodename} {world} {pid}".encode()


def _is_gone(owner: bytes) -> bool:
    """Whether `owner` names a process of this machine that is no more."""
    with suppress(ValueError, PermissionError, OverflowError):
        pid = int(owner.rpartition(b" ")[2])
        if owner == _name(pid):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
    return False
