"""The store of sealed trees: one folder per digest, made by rename, so that it is whole or absent."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from kernelworks_build.action import Tree
from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.tree import digest_of, remove, seal

__all__ = ["TreeStore"]

_PREFIX = ".building-"


class TreeStore:
    """Sealed trees below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, digest: str) -> Tree | None:
        """The tree of that digest, or None where it has to be built."""
        path = self.root / digest
        return Tree(digest, path) if path.is_dir() else None

    def add(
        self, build: Callable[[Path], None], expected: str | None = None, *, relock: str = "kernel-build lock"
    ) -> Tree:
        """The sealed tree that `build` makes in the empty folder that it is given.

        With `expected` nothing is built where that tree exists or another process makes it. `relock` is the
        command that pins the tree anew, for the hint of an error.

        Raises:
            ToolchainError: The tree has another digest than `expected`.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        self._sweep()
        if expected is None:
            return self._build(build, None, relock)
        with self._lock(expected):
            return self.get(expected) or self._build(build, expected, relock)

    def verify(self, digest: str) -> None:
        """Read the whole tree of that digest again.

        Raises:
            ToolchainError: Its content has changed.
        """
        got = digest_of(self.root / digest)
        if got != digest:
            raise ToolchainError(
                f"the tree `{self.root / digest}` has changed: its digest is `{got}` now",
                hint="delete the folder; the next build makes it again",
                expected=digest,
                got=got,
            )

    def _build(self, build: Callable[[Path], None], expected: str | None, relock: str) -> Tree:
        with self._workplace() as folder:
            build(folder)
            digest = seal(folder)
            if expected not in (None, digest):
                raise ToolchainError(
                    f"the tree that was made has the digest `{digest}`, the lock says `{expected}`",
                    hint=f"its lock was made by another recipe: `{relock}` pins it anew",
                    expected=expected,
                    got=digest,
                )
            os.sync()  # a tree that has its final name is whole, even after a power cut
            if expected is None:
                with self._lock(digest):
                    return self._publish(folder, digest)
            return self._publish(folder, digest)

    def _publish(self, folder: Path, digest: str) -> Tree:
        path = self.root / digest
        if not path.is_dir():
            folder.rename(path)
        return Tree(digest, path)

    @contextmanager
    def _workplace(self) -> Iterator[Path]:
        """A new folder that is gone afterwards unless it was renamed; its lock tells that its owner lives."""
        folder = self.root / f"{_PREFIX}{secrets.token_hex(8)}"
        with FileLock(f"{folder}.lock") as owner:
            folder.mkdir()
            try:
                yield folder
            finally:
                remove(folder)
                Path(owner.lock_file).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Delete what killed builders left: the kernel has released their locks."""
        for path in self.root.glob(f"{_PREFIX}*.lock"):
            with suppress(Timeout), FileLock(path, timeout=0):
                remove(path.with_suffix(""))
                path.unlink(missing_ok=True)

    def _lock(self, digest: str) -> FileLock:
        return FileLock(self.root / f".{digest}.lock")
