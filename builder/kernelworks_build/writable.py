"""Whether a folder takes what a command is going to write there, asked before anything is done for it."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

from kernelworks.errors import UsageError

__all__ = ["require_writable"]

_LEAST = 1 << 20
"""Bytes: no result of a build is worth less room."""


def require_writable(folder: Path) -> None:
    """Return if a file of a megabyte can be written to `folder`, or where it will be made; nothing is left there.

    Raises:
        UsageError: It is no folder.
        OSError: It cannot be written, or its disk is full; names `folder`.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"`{folder}` is a file, not a folder", hint="name a folder by `--out`", path=folder)
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with TemporaryFile(dir=there) as probe:
            os.posix_fallocate(probe.fileno(), 0, _LEAST)
    except OSError as error:
        error.filename = str(folder)
        raise
