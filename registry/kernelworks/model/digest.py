"""SHA-256 of files and trees, and the canonical JSON that digests are taken of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

__all__ = [
    "FileEntry",
    "canonical_json",
    "hash_bytes",
    "hash_file",
    "hash_stream",
    "list_tree",
    "tree_digest",
]

_CHUNK = 1 << 18


@dataclass(frozen=True, order=True)
class FileEntry:
    """One file of a tree: path relative to the root with `/`, size in bytes, SHA-256 in hex."""

    path: str
    size: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size, "sha256": self.sha256}


def canonical_json(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys, no blanks and one newline at the end: equal values give equal bytes."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def hash_bytes(data: bytes) -> str:
    """SHA-256 of `data` in hex."""
    return hashlib.sha256(data).hexdigest()


def hash_stream(stream: BinaryIO) -> tuple[int, str]:
    """(size in bytes, SHA-256 in hex) of what is left in `stream`, read in chunks."""
    digest = hashlib.sha256()
    size = 0
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def hash_file(path: Path) -> tuple[int, str]:
    """(size in bytes, SHA-256 in hex) of the file at `path`, read in chunks."""
    with path.open("rb") as stream:
        return hash_stream(stream)


def list_tree(root: Path) -> list[FileEntry]:
    """Every regular file below `root` with size and SHA-256, sorted by path.

    Raises:
        ValueError: The tree holds a symbolic link or a special file, whose bytes no digest would cover.
    """
    entries = []
    for path in root.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            msg = f"`{path.relative_to(root)}` is neither a file nor a folder"
            raise ValueError(msg)
        if path.is_file():
            entries.append(FileEntry(path.relative_to(root).as_posix(), *hash_file(path)))
    return sorted(entries)


def tree_digest(entries: Iterable[FileEntry]) -> str:
    """SHA-256 over the canonical JSON of the sorted entries: the identity of a set of files."""
    return hash_bytes(canonical_json([entry.to_json() for entry in sorted(entries)]))
