"""Files of the cache that are believed though no digest proves them: only this user can have written them.

Whoever can write as this user can forge them, and can as well change this program.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from kernelworks.durable import replace_file

__all__ = ["read_private", "write_private"]


def read_private(path: Path) -> bytes | None:
    """The bytes of `path`, or None where there is no such file, or one of another user or that others may write."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            return file.read()
    except OSError:
        return None


def write_private(path: Path, data: bytes) -> None:
    """Let `path` hold `data` where this cache can be written; whoever reads it can do without, and finds damage."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data, mode=0o600, durable=False)
