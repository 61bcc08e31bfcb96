"""Unpacked kernels on this machine: `kernels/<SHA-256 of the wheel>/` holds exactly the files of one variant.

A folder appears under its name whole or not at all: it is filled under a temporary name, flushed to the disk
and renamed. Of several processes that unpack one wheel at once the first wins; the copies of the others are
equal and are dropped. What a killed process leaves is locked by nobody, and a later unpack removes it.

A folder that is not what was published (a bad disk, a stray edit, an attack) is never imported. It is a copy, and
the index proves the wheel: so the wheel is unpacked again, once, and takes the folder's place, with a warning in
the log. One process at a time does that, under a lock on `kernels/`, and looks again before: a good folder that
others import from is never moved. Where the wheel cannot be had or is damaged too, the load is refused.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, BinaryIO

from kernelworks.durable import sync, sync_tree
from kernelworks.errors import HostError, KernelworksError
from kernelworks.model.digest import FileEntry
from kernelworks.model.variant import Variant
from kernelworks.verify import REPUBLISH, Fault, check_folder, content_faults, folder_faults, verify_error
from kernelworks.zip_errors import BROKEN_ZIP

__all__ = ["Store"]

_log = logging.getLogger("kernelworks")

_CHUNK = 1 << 20
_INCOMING = ".incoming-"
_STALE_SECONDS = 600
_CONTRADICTION = "index and wheel of this revision contradict each other: whoever published it must build it again"


class Store:
    """The kernels below `root`, the cache's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root / "kernels"

    def get(self, variant: Variant, open_wheel: Callable[[], BinaryIO], origin: str) -> Path:
        """The folder with the verified files of `variant`; unpacks the wheel where it is not there yet, or damaged.

        Args:
            variant: The variant; its wheel's digest is its identity.
            open_wheel: Opens the wheel, seekable; called only where it is needed.
            origin: Where the wheel lies, for messages.

        Raises:
            VerifyError: The wheel or the folder does not hold what the index lists; nothing was imported.
            HostError: The cache cannot be written.
        """
        folder = self.root / variant.wheel.sha256
        if not os.path.lexists(folder):
            try:
                with self._unpacked(variant, open_wheel, origin) as fresh:
                    _place(fresh, folder)
            except OSError as error:
                raise HostError(
                    f"cannot unpack `{variant.wheel.path}` into the cache `{self.root}`: {error}",
                    hint="free or unlock that folder, or name another one by KERNELWORKS_CACHE",
                    folder=str(self.root),
                ) from error
        if folder_faults(folder, variant.files):
            self._replace(variant, open_wheel, origin)
        return folder

    def _replace(self, variant: Variant, open_wheel: Callable[[], BinaryIO], origin: str) -> None:
        """Put a fresh copy in the place of a damaged one, if the wheel can be had."""
        folder = self.root / variant.wheel.sha256
        with _locked(self.root, wait=True):
            faults = folder_faults(folder, variant.files)
            if not faults:
                return  # another process has put it right
            try:
                with self._unpacked(variant, open_wheel, origin) as fresh:
                    self._remove(folder)
                    _place(fresh, folder)
            except (KernelworksError, OSError) as error:
                hint = f"it could not be unpacked again: {error}"
                raise verify_error(str(folder), faults, hint=hint) from error
            check_folder(folder, variant.files, hint="unpacked again just now: does this disk keep what is written?")
        _log.warning("%s; it was unpacked again from `%s`", verify_error(str(folder), faults, hint=None), origin)

    @contextmanager
    def _unpacked(self, variant: Variant, open_wheel: Callable[[], BinaryIO], origin: str) -> Iterator[Path]:
        """A folder under a temporary name with the files of `variant`, to be renamed."""
        with open_wheel() as wheel:
            try:
                _check_wheel(variant.wheel, wheel)
                self.root.mkdir(parents=True, exist_ok=True)
                self._sweep()
                with self._incoming() as incoming:
                    _unpack(variant, wheel, incoming)
                    yield incoming
            except _RefusedError as error:
                raise verify_error(origin, (error.fault,), hint=error.hint) from error.__cause__
        sync(self.root)

    def _remove(self, damaged: Path) -> None:
        """Take `damaged` out of the way in one step: nobody finds it half removed under its name."""
        aside = self._temporary()
        with contextlib.suppress(FileNotFoundError):
            damaged.rename(aside)
            if aside.is_dir() and not aside.is_symlink():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                aside.unlink()

    def _temporary(self) -> Path:
        return self.root / f"{_INCOMING}{secrets.token_hex(8)}"

    @contextmanager
    def _incoming(self) -> Iterator[Path]:
        path = self._temporary()
        path.mkdir()
        with _locked(path):
            try:
                yield path
            finally:
                shutil.rmtree(path, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what dead processes left: the lock of a folder ends with the process that holds it."""
        for path in self.root.glob(f"{_INCOMING}*"):
            with contextlib.suppress(OSError):  # gone meanwhile, or its owner lives
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:  # not one that is about to be locked
                    with _locked(path):
                        shutil.rmtree(path, ignore_errors=True)


class _RefusedError(Exception):
    """A wheel that is not unpacked, for `fault`."""

    def __init__(self, fault: Fault, hint: str = _CONTRADICTION) -> None:
        super().__init__(fault, hint)
        self.fault = fault
        self.hint = hint


def _place(fresh: Path, folder: Path) -> None:
    """Give `fresh` the name `folder`, unless another process was first with the same bytes."""
    try:
        fresh.rename(folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


@contextmanager
def _locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _check_wheel(listed: FileEntry, wheel: BinaryIO) -> None:
    for fault in content_faults(replace(listed, path="."), wheel):
        raise _RefusedError(fault, REPUBLISH)
    wheel.seek(0)


def _unpack(variant: Variant, wheel: BinaryIO, target: Path) -> None:
    """Write the files of `variant` below `target`, at paths from the index, never from the wheel."""
    with _reading():
        archive = zipfile.ZipFile(wheel)
    with archive:
        members = _members(variant, archive)
        for entry in variant.files:
            path = target / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            member = members[f"{variant.package}/{entry.path}"]
            with path.open("xb") as file:
                _copy(_content(archive, member, entry.size + 1), file, entry)
    sync_tree(target)


@contextmanager
def _reading() -> Iterator[None]:
    """Around reading alone: the bytes are those of the index, so an archive that is not sound was published so."""
    try:
        yield
    except BROKEN_ZIP as error:
        raise _RefusedError(Fault(".", "a wheel", f"an archive that cannot be read ({error})")) from error


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
            raise _RefusedError(Fault(info.filename, "one member", "two of this name"))
        if info.filename not in listed and not info.is_dir() and not top.endswith(".dist-info"):
            raise _RefusedError(Fault(info.filename, "nothing", "a member that is not listed"))
        members[info.filename] = info
    for missing in sorted(listed - members.keys()):
        raise _RefusedError(Fault(missing, "a member", "nothing"))
    return members


def _copy(chunks: Iterable[bytes], file: IO[bytes], entry: FileEntry) -> None:
    digest = hashlib.sha256()
    size = 0
    for chunk in chunks:
        digest.update(chunk)
        file.write(chunk)
        size += len(chunk)
    if size != entry.size:
        got = f"more than {entry.size} bytes" if size > entry.size else f"{size} bytes"
        raise _RefusedError(Fault(entry.path, f"{entry.size} bytes", got))
    if digest.hexdigest() != entry.sha256:
        raise _RefusedError(Fault(entry.path, f"sha256 {entry.sha256}", f"sha256 {digest.hexdigest()}"))
