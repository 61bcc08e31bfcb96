"""Wheels as bags of files: nothing is installed."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.tree import FileEntry

__all__ = ["entries"]


def entries(path: Path) -> Iterator[FileEntry]:
    """The files in the wheel at `path`, named as in it.

    Raises:
        ToolchainError: No wheel, or one with a link in it.
    """
    try:
        with ZipFile(path) as archive:
            for member in archive.infolist():
                mode = member.external_attr >> 16
                if stat.S_ISLNK(mode):
                    raise ToolchainError(f"`{member.filename}` of `{path.name}` is a link: wheels have none")
                if not member.is_dir():
                    yield FileEntry(member.filename, bool(mode & 0o100), archive.read(member))
    except BadZipFile as error:
        raise ToolchainError(f"`{path.name}` is no wheel: {error}") from error
