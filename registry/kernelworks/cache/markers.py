"""What this user has proved by its digests, told again by one `lstat` per file and folder.

A marker is a file `verified/<key>` in the cache, outside of every kernel: the key names the folder and the digests
that it must have; the marker holds the digest of that and of what the file system says of each of its files and
folders (size, mtime, ctime, inode, device). No write, rename or new file leaves all of that as it was: ctime cannot
be set. What changed so shortly before it was read that the clock of the file system might not show another change
gets its marker when it is read the next time.

Whoever can write as this user can forge a marker: it proves nothing against them (`private` says more). The markers
of another user are not believed.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelworks.cache.private import read_private, write_private
from kernelworks.model.digest import FileEntry, hash_bytes, tree_digest
from kernelworks.verify import Fault, folder_faults, verify_error

__all__ = ["Markers", "stamp"]

_FOLDER = "verified"
_TICK_NS = 20_000_000
"""Longer than the clock of any local file system stands still."""


@dataclass(frozen=True)
class _State:
    """What the file system says of a folder: its digest, and when something in it last changed (ns)."""

    digest: str
    changed_ns: int


class Markers:
    """The markers in the folders `layers` of the cache; the first is written, where it can be."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._folders = [layer / _FOLDER for layer in layers]

    def check(
        self, folder: Path, files: Iterable[FileEntry], *, hint: str, beside: frozenset[str] = frozenset()
    ) -> None:
        """Return if `folder` holds `files` and nothing else; see `verify.check_folder`.

        Raises:
            VerifyError: It does not.
        """
        if faults := self.faults(folder, files, beside):
            raise verify_error(str(folder), faults, hint=hint)

    def faults(
        self, folder: Path, files: Iterable[FileEntry], beside: frozenset[str] = frozenset()
    ) -> tuple[Fault, ...]:
        """What `verify.folder_faults` says; no file is read where a marker tells that nothing has changed."""
        files = tuple(files)
        key = hash_bytes(f"{folder.absolute()}\0{tree_digest(files)}".encode())
        before = _state(key, folder, files)
        if before and any(read_private(markers / key) == before.digest.encode() for markers in self._folders):
            return ()
        begun = time.time_ns()
        faults = folder_faults(folder, files, beside)
        if not faults and before and before.changed_ns < begun - _TICK_NS and before == _state(key, folder, files):
            write_private(self._folders[0] / key, before.digest.encode())
        return faults


def stamp(found: os.stat_result) -> tuple[int, ...]:
    """What no write, rename or new file leaves as it was: size, mtime, ctime, inode, device."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev


def _state(key: str, folder: Path, files: Sequence[FileEntry]) -> _State | None:
    """The state of `folder`, or None where it lacks one of `files`."""
    folders = {str(parent) for entry in files for parent in PurePosixPath(entry.path).parents}
    facts, changed = [], 0
    try:
        for kind, paths in ((stat.S_IFDIR, sorted(folders)), (stat.S_IFREG, [entry.path for entry in files])):
            for path in paths:
                found = os.lstat(os.path.join(folder, path))  # noqa: PTH118  # half the time of a Path, and this is hot
                if stat.S_IFMT(found.st_mode) != kind:
                    return None
                facts.append((path, *stamp(found)))
                changed = max(changed, found.st_ctime_ns)
    except OSError:
        return None
    return _State(hash_bytes(repr((key, facts)).encode()), changed)
