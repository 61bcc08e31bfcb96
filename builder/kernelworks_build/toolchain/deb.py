"""Debian packages: what one has below /usr. Its scripts are never run."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.tree import Entry, FileEntry, LinkEntry

__all__ = ["entries"]

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_MERGED = {"bin", "lib", "lib32", "lib64", "libx32", "sbin"}
"""Folders of the root that are links into /usr."""


def entries(path: Path) -> Iterator[Entry]:
    """The files and links that the package at `path` has below /usr, relative to it.

    Folders of the root that are links into /usr count as below it. Absolute links become relative; one that leads out
    of /usr stays as it is.

    Raises:
        ToolchainError: No package, packed in an unknown way, or a path that climbs out of it.
    """
    with path.open("rb") as stream, _open_data(stream, path.name) as archive:
        for member in archive:
            place = _below_usr(member.name, path.name)
            if place is None or member.isdir():
                continue
            if member.issym():
                target = posixpath.join("/", posixpath.dirname(member.name), member.linkname)
                reached = _below_usr(posixpath.normpath(target).lstrip("/"), path.name)
                if reached is None:
                    yield LinkEntry(place, member.linkname)  # refused where it is written, unless left out
                else:
                    yield LinkEntry(place, posixpath.relpath(reached, posixpath.dirname(place) or "."))
            elif (content := archive.extractfile(member)) is not None:
                yield FileEntry(place, bool(member.mode & 0o100), content.read())
            else:
                raise ToolchainError(f"`{member.name}` of `{path.name}` is neither file, folder nor link")


def _open_data(stream: BinaryIO, name: str) -> tarfile.TarFile:
    """The payload of a package, an `ar` archive whose member `data.tar.*` it is."""
    if stream.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise ToolchainError(f"`{name}` is no Debian package")
    while header := stream.read(_AR_HEADER):
        member, size = header[:16].decode("ascii").rstrip(" /"), int(header[48:58])
        if member.startswith("data.tar"):
            return _open_tar(io.BytesIO(stream.read(size)), name, member)
        stream.seek(size + size % 2, io.SEEK_CUR)
    raise ToolchainError(f"`{name}` has no payload")


def _open_tar(data: BinaryIO, name: str, member: str) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=data)
    except tarfile.ReadError as error:
        raise ToolchainError(f"`{member}` of `{name}` is packed in a way that Python cannot read: {error}") from error


def _below_usr(name: str, package: str) -> str | None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ToolchainError(f"`{package}` names `{name}`, which is outside of the tree", source=package, path=name)
    if path.parts[:1] == ("usr",) and len(path.parts) > 1:
        return str(PurePosixPath(*path.parts[1:]))
    return str(path) if path.parts[:1] and path.parts[0] in _MERGED else None
