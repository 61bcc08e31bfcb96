"""Folders that are filled under a temporary name; what a killed process leaves is removed by the next one."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from kernelworks_build.toolchain.tree import remove

__all__ = ["filling", "scratch", "sweep"]

_PREFIX = ".building-"


@contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Names `folder` in the error of a full disk that names no file: a write knows its descriptor alone."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT} and error.filename is None:
            error.filename = str(folder)
        raise


@contextmanager
def scratch(root: Path) -> Iterator[Path]:
    """A new empty folder below `root`, gone afterwards unless it was renamed.

    A lock beside it tells that its owner lives; the system releases it however the owner ends.
    """
    root.mkdir(parents=True, exist_ok=True)
    sweep(root)
    folder = root / f"{_PREFIX}{secrets.token_hex(8)}"
    with filling(root), FileLock(f"{folder}.lock") as owner:
        folder.mkdir()
        try:
            yield folder
        finally:
            remove(folder)
            Path(owner.lock_file).unlink(missing_ok=True)


def sweep(root: Path) -> list[Path]:
    """The folders below `root` whose owners ended early, removed."""
    gone = []
    for path in root.glob(f"{_PREFIX}*.lock"):
        with suppress(Timeout), FileLock(path, timeout=0):  # unless its owner lives
            remove(path.with_suffix(""))
            path.unlink(missing_ok=True)
            gone.append(path.with_suffix(""))
    return gone
