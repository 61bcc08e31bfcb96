"""Bytes that survive a power cut: what returned is on the disk, and what was replaced is old or new, never half."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["replace_file", "sync", "sync_tree"]


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Flush every file and folder below `root`, so that a rename publishes them whole.

    A symbolic link is an entry of its folder and not followed.
    """
    for folder, _, names in os.walk(root):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            if not path.is_symlink():
                sync(path)


def replace_file(path: Path, data: bytes, *, mode: int = 0o666, durable: bool = True) -> None:
    """Let `path` hold `data`: a reader finds the old bytes or the new ones, and after the return the new ones.

    The folder must exist; what is written meanwhile lies beside `path` under a name with a leading dot. Of `mode`,
    the permissions, the umask takes its share. What is not `durable` takes no time of the disk, and a power cut may
    leave any bytes of it.
    """
    incoming = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        incoming.touch(mode, exist_ok=False)
        with incoming.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        incoming.replace(path)
    finally:
        incoming.unlink(missing_ok=True)
    if durable:
        sync(path.parent)
