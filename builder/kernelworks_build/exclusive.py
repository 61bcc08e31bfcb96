"""One process at a time, and a word for whoever has to wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from kernelworks_build.progress import Progress

__all__ = ["exclusive"]


@contextmanager
def exclusive(path: Path, progress: Progress) -> Iterator[None]:
    """Holds the lock file `path`; where another process has it, says so and waits."""
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        progress.note("waiting for another process that builds the same")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
