"""The store of sealed trees: one folder per digest, made by rename, so that it is whole or absent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from filelock import FileLock

from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks_build.action import Tree
from kernelworks_build.errors import ToolchainError
from kernelworks_build.exclusive import exclusive
from kernelworks_build.progress import SILENT, Progress
from kernelworks_build.scratch import scratch
from kernelworks_build.toolchain.tree import digest_of, remove, seal

__all__ = ["TreeStore"]


class TreeStore:
    """Sealed trees below `root`.

    Args:
        root: Where trees are put.
        progress: Hears when one that another process makes is waited for.
        shared: Other stores, whose trees are used where they lie; nothing is ever written there.
    """

    def __init__(self, root: Path, progress: Progress = SILENT, shared: Iterable[Path] = ()) -> None:
        self.root = root
        self._progress = progress
        self._shared = tuple(shared)

    def get(self, digest: str) -> Tree | None:
        """The tree of that digest, or None where it has to be built; one of ours that has changed is removed.

        It is read whole the first time and after any change that the file system tells of (size, times, inode).
        """
        return self._own(digest) if (self.root / digest).is_dir() else self._lent(digest)

    def expected(self, digest: str) -> Tree:
        """The tree of that digest where `get` finds it, or where it will be once it is built."""
        path = self.root / digest
        return (None if path.is_dir() else self._lent(digest)) or Tree(digest, path)

    def _own(self, digest: str) -> Tree | None:
        path = self.root / digest
        if not path.is_dir():
            return None
        if self._is_whole(path):
            return Tree(digest, path)
        remove(path)
        return None

    def _lent(self, digest: str) -> Tree | None:
        there = (root / digest for root in self._shared)
        return next((Tree(digest, path) for path in there if path.is_dir() and self._is_whole(path)), None)

    def _is_whole(self, path: Path) -> bool:
        state, stamp = _state(path), self._stamp(path.name)
        if not (stamp.is_file() and stamp.read_text() == state) and digest_of(path) != path.name:
            return False
        self.root.mkdir(parents=True, exist_ok=True)
        stamp.write_text(state)  # in any case: its time tells when the tree was used last
        return True

    def add(
        self, build: Callable[[Path], None], expected: str | None = None, *, relock: str = "kernel-build lock"
    ) -> Tree:
        """The sealed tree that `build` makes in the empty folder that it is given.

        With `expected` nothing is built where that tree exists or another process makes it. `relock` is the
        command that pins the tree anew, for the hint of an error.

        Raises:
            ToolchainError: The tree has another digest than `expected`.
        """
        if expected is None:
            return self._build(build, None, relock)
        self.root.mkdir(parents=True, exist_ok=True)
        with exclusive(self._lock_file(expected), self._progress):
            # not a lent one: who was told that ours is `expected` had one then, which may have been removed
            return self._own(expected) or self._build(build, expected, relock)

    def _build(self, build: Callable[[Path], None], expected: str | None, relock: str) -> Tree:
        with scratch(self.root) as folder:
            build(folder)
            digest = seal(folder)
            if expected is None:
                with FileLock(self._lock_file(digest)):
                    return self.get(digest) or self._publish(folder, digest)
            if expected != digest:
                raise ToolchainError(
                    f"the tree that was made has the digest `{digest}`, the lock says `{expected}`",
                    hint=f"its lock was made by another recipe: `{relock}` pins it anew",
                    expected=expected,
                    got=digest,
                )
            return self._publish(folder, digest)

    def _publish(self, folder: Path, digest: str) -> Tree:
        os.sync()  # thousands of files: whole under their final name, even after a power cut
        folder.rename(self.root / digest)
        self._stamp(digest).write_text(_state(self.root / digest))
        return Tree(digest, self.root / digest)

    def _stamp(self, digest: str) -> Path:
        return self.root / f".{digest}.seen"

    def _lock_file(self, digest: str) -> Path:
        return self.root / f".{digest}.lock"


def _state(root: Path) -> str:
    """Digest of what the file system says of every file: nothing that was written to can keep it.

    Where `root` lies does not matter: a cache may be moved, or be reached by a link.
    """
    facts = []
    for path, _, names, folder in os.fwalk(root):
        place = path[len(str(root)) :]
        for name in names:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            facts.append((place, name, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino))
    return hash_bytes(canonical_json(sorted(facts)))
