"""The files of one variant, written into a folder: from its wheel, or one by one; every byte is proved by the index.

Paths come from the index, never from the wheel.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

from kernelworks.model.digest import FileEntry
from kernelworks.model.variant import Variant
from kernelworks.verify import REPUBLISH, Fault, content_faults
from kernelworks.zip_errors import BROKEN_ZIP

__all__ = ["RefusedError", "copy_files", "unpack"]

_CHUNK = 1 << 20
_AT_ONCE = 8
"""Files that are fetched at once; a registry counts requests, and more would not be faster."""
_CONTRADICTION = "index and wheel of this revision contradict each other: whoever published it must build it again"


class RefusedError(Exception):
    """Not the bytes that the index lists: nothing is kept, for `fault`."""

    def __init__(self, fault: Fault, hint: str = _CONTRADICTION) -> None:
        super().__init__(fault, hint)
        self.fault = fault
        self.hint = hint


def _check_wheel(listed: FileEntry, wheel: BinaryIO) -> None:
    for fault in content_faults(replace(listed, path="."), wheel):
        raise RefusedError(fault, REPUBLISH)
    wheel.seek(0)


def unpack(variant: Variant, open_wheel: Callable[[], BinaryIO], target: Path) -> None:
    """Write the files of `variant` below `target` from its wheel, which `open_wheel` opens.

    Raises:
        RefusedError: The wheel is not the one of the index, or no sound archive, or holds anything else.
    """
    with open_wheel() as wheel:
        _check_wheel(variant.wheel, wheel)
        with _reading():
            archive = zipfile.ZipFile(wheel)
        with archive:
            members = _members(variant, archive)
            for entry in variant.files:
                member = members[f"{variant.package}/{entry.path}"]
                _write(_content(archive, member, entry.size + 1), entry, target)


def copy_files(variant: Variant, open_file: Callable[[FileEntry], BinaryIO], target: Path) -> None:
    """Write the files of `variant` below `target`, where there is no wheel; `open_file` opens one of them.

    Raises:
        RefusedError: A file is not the one of the index.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # most kernels have a wheel

    def copy(entry: FileEntry) -> None:
        with open_file(entry) as stream:
            _write(iter(partial(stream.read, _CHUNK), b""), entry, target)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(copy, variant.files))


@contextmanager
def _reading() -> Iterator[None]:
    """Around reading alone: the bytes are those of the index, so an archive that is not sound was published so."""
    try:
        yield
    except BROKEN_ZIP as error:
        raise RefusedError(Fault(".", "a wheel", f"an archive that cannot be read ({error})")) from error


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> Iterator[bytes]:
    """The bytes of `member` in chunks, at most `limit` of them, whatever its header says."""
    with _reading(), archive.open(member) as source:
        while limit and (chunk := source.read(min(_CHUNK, limit))):
            limit -= len(chunk)
            yield chunk


def _members(variant: Variant, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    listed = {f"{variant.package}/{entry.path}" for entry in variant.files}
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        top = info.filename.partition("/")[0]
        if info.filename in members:
            raise RefusedError(Fault(info.filename, "one member", "two of this name"))
        if info.filename not in listed and not info.filename.endswith("/") and not top.endswith(".dist-info"):
            raise RefusedError(Fault(info.filename, "nothing", "a member that is not listed"))
        members[info.filename] = info
    for missing in sorted(listed - members.keys()):
        raise RefusedError(Fault(missing, "a member", "nothing"))
    return members


def _write(chunks: Iterable[bytes], entry: FileEntry, target: Path) -> None:
    path = target / entry.path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        _copy(chunks, file, entry)


def _copy(chunks: Iterable[bytes], file: IO[bytes], entry: FileEntry) -> None:
    digest = hashlib.sha256()
    size = 0
    for chunk in chunks:
        digest.update(chunk)
        file.write(chunk)
        size += len(chunk)
    if size != entry.size:
        got = f"more than {entry.size} bytes" if size > entry.size else f"{size} bytes"
        raise RefusedError(Fault(entry.path, f"{entry.size} bytes", got))
    if digest.hexdigest() != entry.sha256:
        raise RefusedError(Fault(entry.path, f"sha256 {entry.sha256}", f"sha256 {digest.hexdigest()}"))
