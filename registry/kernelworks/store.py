"""Unpacked kernels on this machine: `kernels/<SHA-256 of the wheel>/` holds exactly the files of one variant.

The cache may have layers: the first is written, the others (the image of a container, a shared disk) are read only.

A folder appears under its name whole or not at all: it is filled under a temporary name, flushed to the disk
and renamed. Of several processes that want one wheel at once one fetches and unpacks it, and the others find it done;
where the file system has no locks that hold, the first to finish wins, and the copies of the others are equal and are
dropped. What a killed process leaves is locked by nobody, and a later unpack removes it.

A folder that is not what was published (a bad disk, a stray edit, an attack) is never imported. It is a copy, and
the index proves the wheel: so the wheel is unpacked again, once, and takes the folder's place, with a warning in
the log. The owner of the lock does that, and looks again before: a good folder that others import from is never
moved. Where the wheel cannot be had or is damaged too, the load is refused. A damaged folder of a lower layer is
passed over.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kernelworks.cache.locks import exclusive, try_lock
from kernelworks.cache.markers import Markers
from kernelworks.cache.unpack import RefusedError, copy_files, unpack
from kernelworks.durable import sync, sync_tree
from kernelworks.errors import HostError, KernelworksError
from kernelworks.model.digest import FileEntry
from kernelworks.model.variant import Variant
from kernelworks.verify import Fault, check_folder, verify_error

__all__ = ["Store"]

_Fill = Callable[[Path], None]
"""Writes the files of a variant into a folder; raises `RefusedError` where they are not what the index lists."""

_log = logging.getLogger("kernelworks")

_INCOMING = ".incoming-"
_STALE_SECONDS = 600


class Store:
    """The kernels below `layers`, the folders of the cache."""

    def __init__(self, first: Path, *others: Path) -> None:
        self.root = first / "kernels"
        self._others = [layer / "kernels" for layer in others]
        self._locks = first / "locks"
        self._markers = Markers((first, *others))

    def find(self, variant: Variant) -> Path | None:
        """The folder with the verified files of `variant`, or None where no layer holds them undamaged."""
        for root in (self.root, *self._others):
            folder = root / variant.wheel.sha256
            if os.path.lexists(folder):
                faults = self._markers.faults(folder, variant.files)
                if not faults:
                    return folder
                if root != self.root:
                    _log.warning("%s; it is passed over", verify_error(str(folder), faults, hint=None))
        return None

    def get(self, variant: Variant, open_wheel: Callable[[], BinaryIO], origin: str) -> Path:
        """The folder with the verified files of `variant`; unpacks the wheel where it is not there yet, or damaged.

        Args:
            variant: The variant; its wheel's digest is its identity.
            open_wheel: Opens the wheel, seekable; called only where it is needed, by one process at a time.
            origin: Where the wheel lies, for messages.

        Raises:
            VerifyError: The wheel or the folder does not hold what the index lists; nothing was imported.
            HostError: The cache cannot be written.
        """
        return self._get(variant, lambda target: unpack(variant, open_wheel, target), origin)

    def get_files(self, variant: Variant, open_file: Callable[[FileEntry], BinaryIO], origin: str) -> Path:
        """As `get`, for a variant without a wheel: `open_file` opens each of its files, several at a time."""
        return self._get(variant, lambda target: copy_files(variant, open_file, target), origin)

    def _get(self, variant: Variant, fill: _Fill, origin: str) -> Path:
        if found := self.find(variant):
            return found
        with self._writing(variant), exclusive(self._locks / variant.wheel.sha256):
            return self._fetched(variant, fill, origin)

    def _fetched(self, variant: Variant, fill: _Fill, origin: str) -> Path:
        """A fresh copy in the first layer, in the place of a damaged one, unless another process has seen to it."""
        folder = self.root / variant.wheel.sha256
        faults = self._faults(folder, variant)
        if faults == ():
            return folder
        try:
            with self._filled(fill, origin) as fresh:
                if self._faults(folder, variant):  # still: the lock may be one that does not hold
                    self._remove(folder)
                _place(fresh, folder)
        except (KernelworksError, OSError) as error:
            if not faults:
                raise
            hint = f"it could not be unpacked again: {error}"
            raise verify_error(str(folder), faults, hint=hint) from error
        check_folder(folder, variant.files, hint="unpacked just now: does this disk keep what is written?")
        if faults:
            _log.warning("%s; it was unpacked again from `%s`", verify_error(str(folder), faults, hint=None), origin)
        return folder

    def _faults(self, folder: Path, variant: Variant) -> tuple[Fault, ...] | None:
        """How `folder` is damaged; None where there is none."""
        return self._markers.faults(folder, variant.files) if os.path.lexists(folder) else None

    @contextmanager
    def _writing(self, variant: Variant) -> Iterator[None]:
        """Around all that writes into the cache."""
        try:
            yield
        except OSError as error:
            raise HostError(
                f"cannot unpack variant `{variant.name}` into the cache `{self.root}`: {error}",
                hint="free or unlock that folder, or name another one by KERNELWORKS_CACHE",
                folder=str(self.root),
            ) from error

    @contextmanager
    def _filled(self, fill: _Fill, origin: str) -> Iterator[Path]:
        """A folder under a temporary name with the files of a variant, to be renamed."""
        self.root.mkdir(parents=True, exist_ok=True)
        self._sweep()
        with self._incoming() as incoming:
            try:
                fill(incoming)
            except RefusedError as error:
                raise verify_error(origin, (error.fault,), hint=error.hint) from error.__cause__
            sync_tree(incoming)
            yield incoming
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
        return self.root / f"{_INCOMING}{os.urandom(8).hex()}"

    @contextmanager
    def _incoming(self) -> Iterator[Path]:
        path = self._temporary()
        path.mkdir()
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try_lock(descriptor)  # says to others that its owner lives
        try:
            yield path
        finally:
            os.close(descriptor)
            shutil.rmtree(path, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what dead processes left: the lock of a folder ends with the process that holds it."""
        for path in self.root.glob(f"{_INCOMING}*"):
            with contextlib.suppress(OSError):  # gone meanwhile, or its owner lives
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:  # not one that is about to be locked
                    _remove_dead(path)


def _place(fresh: Path, folder: Path) -> None:
    """Give `fresh` the name `folder`, unless another process was first with the same bytes."""
    try:
        fresh.rename(folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def _remove_dead(path: Path) -> None:
    """Remove the folder of an unpack whose owner is no more."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if try_lock(descriptor):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
