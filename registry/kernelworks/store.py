"""Unpacked kernels on this machine: `kernels/<SHA-256 of the wheel>/` holds exactly the files of one variant.

A folder appears under its name whole or not at all: it is filled under a temporary name, flushed to the disk
and renamed. Of several processes that unpack one wheel at once the first wins; the copies of the others are
equal and are dropped. What a killed process leaves is locked by nobody, and a later unpack removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from kernelworks.errors import HostError
from kernelworks.model.digest import FileEntry, hash_stream
from kernelworks.model.variant import Variant
from kernelworks.verify import Fault, check_folder, verify_error

__all__ = ["Store"]

_CHUNK = 1 << 20
_INCOMING = ".incoming-"
_STALE_SECONDS = 600
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


class Store:
    """The kernels below `root`, the cache's folder."""

    def __init__(self, root: Path) -> None:
        self.root = root / "kernels"

    def get(self, variant: Variant, open_wheel: Callable[[], BinaryIO]) -> Path:
        """The folder with the verified files of `variant`; unpacks the wheel where it is not there yet.

        Args:
            variant: The variant; its wheel's digest is its identity.
            open_wheel: Opens the wheel, seekable; called only where it is needed.

        Raises:
            VerifyError: The wheel or the folder does not hold what the index lists; nothing was imported.
            HostError: The cache cannot be written.
        """
        folder = self.root / variant.wheel.sha256
        if not folder.exists():
            with open_wheel() as wheel:
                try:
                    self._add(variant, wheel, folder)
                except OSError as error:
                    raise HostError(
                        f"cannot unpack `{variant.wheel.path}` into the cache `{self.root}`: {error}",
                        hint="free or unlock that folder, or name another one by KERNELWORKS_CACHE",
                        folder=str(self.root),
                    ) from error
        check_folder(folder, variant.files, hint=f"delete `{folder}`; the next load unpacks the wheel again")
        return folder

    def _add(self, variant: Variant, wheel: BinaryIO, folder: Path) -> None:
        _check_wheel(variant.wheel, wheel)
        self.root.mkdir(parents=True, exist_ok=True)
        self._sweep()
        with self._incoming() as incoming:
            _unpack(variant, wheel, incoming)
            try:
                incoming.rename(folder)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise  # else another process was first with the same bytes
        _sync(self.root)

    @contextmanager
    def _incoming(self) -> Iterator[Path]:
        path = self.root / f"{_INCOMING}{secrets.token_hex(8)}"
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


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _check_wheel(listed: FileEntry, wheel: BinaryIO) -> None:
    hint = "the registry's copy is damaged or was replaced: publish the revision again"
    size = wheel.seek(0, os.SEEK_END)
    if size != listed.size:
        fault = Fault(listed.path, f"{listed.size} bytes", f"{size} bytes")
        raise verify_error(listed.path, (fault,), hint=hint)
    wheel.seek(0)
    _, sha256 = hash_stream(wheel)
    if sha256 != listed.sha256:
        fault = Fault(listed.path, f"sha256 {listed.sha256}", f"sha256 {sha256}")
        raise verify_error(listed.path, (fault,), hint=hint)


def _unpack(variant: Variant, wheel: BinaryIO, target: Path) -> None:
    """Write the files of `variant` below `target`, at paths from the index, never from the wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = _members(variant, archive)
            for entry in variant.files:
                path = target / entry.path
                path.parent.mkdir(parents=True, exist_ok=True)
                with (
                    archive.open(members[f"{variant.package}/{entry.path}"]) as source,
                    path.open("xb") as file,
                ):
                    _copy(source, file, entry, variant)
    except _BROKEN_ZIP as error:
        fault = Fault(variant.wheel.path, "a wheel", f"an archive that cannot be read ({error})")
        raise _inconsistent(variant, fault) from error
    for folder, _, _ in os.walk(target):
        _sync(Path(folder))


def _members(variant: Variant, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    listed = {f"{variant.package}/{entry.path}" for entry in variant.files}
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        top = info.filename.partition("/")[0]
        if info.filename in members:
            raise _inconsistent(variant, Fault(info.filename, "one member", "two of this name"))
        if info.filename not in listed and not info.is_dir() and not top.endswith(".dist-info"):
            raise _inconsistent(variant, Fault(info.filename, "nothing", "a member that is not listed"))
        members[info.filename] = info
    for missing in sorted(listed - members.keys()):
        raise _inconsistent(variant, Fault(missing, "a member", "nothing"))
    return members


def _copy(source: IO[bytes], file: IO[bytes], entry: FileEntry, variant: Variant) -> None:
    digest = hashlib.sha256()
    size = 0
    while size <= entry.size and (chunk := source.read(min(_CHUNK, entry.size + 1 - size))):
        digest.update(chunk)
        file.write(chunk)
        size += len(chunk)
    if size != entry.size:
        got = f"more than {entry.size} bytes" if size > entry.size else f"{size} bytes"
        raise _inconsistent(variant, Fault(entry.path, f"{entry.size} bytes", got))
    if digest.hexdigest() != entry.sha256:
        fault = Fault(entry.path, f"sha256 {entry.sha256}", f"sha256 {digest.hexdigest()}")
        raise _inconsistent(variant, fault)
    file.flush()
    os.fsync(file.fileno())


def _inconsistent(variant: Variant, fault: Fault) -> Exception:
    hint = "index and wheel of this revision contradict each other: publish it again"
    return verify_error(variant.wheel.path, (fault,), hint=hint)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
