"""Trees of files: what may be written into one, its canonical digest, and its seal."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kernelworks.model.digest import canonical_json, hash_bytes, hash_file
from kernelworks_build.errors import ToolchainError

__all__ = ["Entry", "FileEntry", "LinkEntry", "digest_of", "remove", "seal", "write"]

_MTIME = 315532800
"""1980-01-01, the first instant that a zip file can say: no tree knows when it was made."""


@dataclass(frozen=True)
class FileEntry:
    """A regular file to be written: path relative to the tree, mode bit, bytes."""

    path: str
    executable: bool
    data: bytes


@dataclass(frozen=True)
class LinkEntry:
    """A symbolic link to be written: path relative to the tree, and a target relative to the link."""

    path: str
    target: str


Entry = FileEntry | LinkEntry


def write(root: Path, entries: Iterable[Entry], source: str) -> None:
    """Write `entries`, which come from the archive `source`, below `root`.

    The same entry may come twice (packages share files), a different one under the same path may not.

    Raises:
        ToolchainError: A path or link that leaves the tree or passes a link; two contents for one path.
    """
    for entry in entries:
        path = _inside(root, entry.path, source)
        if os.path.lexists(path):
            if _at(path, entry.path) != entry:
                raise ToolchainError(f"`{entry.path}` of `{source}` has another content in this tree already")
        elif isinstance(entry, LinkEntry):
            _check_target(entry, source)
            path.symlink_to(entry.target)
        else:
            path.write_bytes(entry.data)
            path.chmod(0o755 if entry.executable else 0o644)


def _inside(root: Path, name: str, source: str) -> Path:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in name:
        raise ToolchainError(f"`{source}` names `{name}`, which is outside of the tree", source=source, path=name)
    folder = root
    for part in pure.parts[:-1]:
        folder /= part
        if folder.is_symlink() or folder.is_file():
            raise ToolchainError(f"`{source}` names `{name}`, but `{part}` is no folder", source=source, path=name)
    folder.mkdir(parents=True, exist_ok=True)
    return root / pure


def _check_target(link: LinkEntry, source: str) -> None:
    """A normal target climbs first, from the link's own folder, which is a real one: it cannot trick."""
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(link.path), link.target))
    if posixpath.normpath(link.target) != link.target or reached.startswith(("/", "..")):
        raise ToolchainError(
            f"`{source}` links `{link.path}` to `{link.target}`, outside of the tree",
            source=source,
            path=link.path,
        )


def _at(path: Path, name: str) -> Entry | None:
    if path.is_symlink():
        return LinkEntry(name, str(path.readlink()))
    if path.is_file():
        return FileEntry(name, _executable(path), path.read_bytes())
    return None


def digest_of(root: Path) -> str:
    """SHA-256 over the canonical JSON of every file and link below `root`, sorted by path.

    A file counts by path, executable bit, size and SHA-256, a link by path and target; folders count only as
    parts of paths; owners, times and other mode bits do not.

    Raises:
        ToolchainError: Something that is neither file, folder nor link.
    """
    facts = [_facts(root, path) for path in _walk(root) if path.is_symlink() or not path.is_dir()]
    return hash_bytes(canonical_json(sorted(facts, key=lambda fact: str(fact["path"]))))


def _facts(root: Path, path: Path) -> dict[str, Any]:
    name = path.relative_to(root).as_posix()
    if path.is_symlink():
        return {"path": name, "kind": "link", "target": str(path.readlink())}
    if path.is_file():
        size, sha256 = hash_file(path)
        return {"path": name, "kind": "file", "executable": _executable(path), "size": size, "sha256": sha256}
    raise ToolchainError(f"`{name}` is neither file, folder nor link", path=name)


def seal(root: Path) -> str:
    """Make the tree read-only and equal to every other tree of its digest, which is returned.

    Empty folders go, modes become 0444 or 0555, and times the same everywhere.
    """
    for path in _walk(root):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
    digest = digest_of(root)
    for path in [*_walk(root), root]:
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() or _executable(path) else 0o444)
        os.utime(path, (_MTIME, _MTIME), follow_symlinks=False)
    return digest


def remove(root: Path) -> None:
    """Delete a tree, sealed or half-made; one that is gone is no error."""
    for folder, _, _ in os.walk(root):
        Path(folder).chmod(0o700)
    shutil.rmtree(root, ignore_errors=True)


def _walk(root: Path) -> Iterator[Path]:
    """Everything below `root`, the content of a folder before the folder."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in (*files, *folders):
            yield Path(folder, name)


def _executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)
