"""Source distributions as bags of files: nothing of theirs is run."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile
from pathlib import Path

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.tree import FileEntry

__all__ = ["entries"]


def entries(path: Path) -> Iterator[FileEntry]:
    """The files in the source distribution at `path`, named as in it: below its own folder `name-version`.

    Raises:
        ToolchainError: No source distribution, or one with more than files and folders in it.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.isdir():
                    continue
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise ToolchainError(f"`{member.name}` of `{path.name}` is neither file nor folder")
                yield FileEntry(member.name, bool(member.mode & 0o100), content.read())
    except (tarfile.TarError, BadGzipFile, EOFError, zlib.error) as error:
        raise ToolchainError(f"`{path.name}` is no source distribution: {error}") from error
