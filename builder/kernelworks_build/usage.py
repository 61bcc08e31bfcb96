"""Who uses the cache: builds share it, and a clean-up has it alone."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelworks_build.progress import SILENT, Progress

__all__ = ["alone", "in_use"]

_FILE = ".in-use"


@contextmanager
def in_use(cache: Path) -> Iterator[None]:
    """Keeps what lies in `cache` from being cleaned up; the system ends it however this process ends."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / _FILE).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def alone(cache: Path, progress: Progress = SILENT) -> Iterator[None]:
    """Nobody uses `cache` meanwhile; `progress` hears when there is somebody to wait for."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / _FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note("waiting for builds that use the cache")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
