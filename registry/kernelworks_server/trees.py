"""Folders as values: each has an encoding that it is stored under, and the object id that git would give it.

A folder is stored by the SHA-256 of its encoding, and names its files and folders by theirs, so that commits share what
did not change. The git ids, which clients compare, are SHA-1 and therefore only ever shown, never looked up.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks_server.errors import Conflict, TooLarge

__all__ = ["EMPTY", "File", "Folder", "Tree", "Workspace", "blob_oid", "decode", "encode", "pointer_oid", "walk"]


@dataclass(frozen=True)
class File:
    """One file: size in bytes, git blob id (of its LFS pointer where `lfs`), SHA-256 of its bytes."""

    size: int
    oid: str
    sha256: str
    lfs: bool


@dataclass(frozen=True)
class Folder:
    """One folder: git tree id, and the SHA-256 that its encoding is stored under."""

    oid: str
    tree: str


Tree = Mapping[str, File | Folder]


def encode(tree: Tree) -> bytes:
    """`tree` as it is stored; equal trees have equal encodings."""
    return canonical_json(
        {
            name: [node.size, node.oid, node.sha256, node.lfs] if isinstance(node, File) else [node.oid, node.tree]
            for name, node in tree.items()
        }
    )


def decode(data: bytes) -> Tree:
    """The tree that `encode` made `data` of; its names are sorted."""
    return {
        name: File(*fields) if len(fields) > 2 else Folder(*fields)  # noqa: PLR2004  # the two shapes of `encode`
        for name, fields in json.loads(data).items()
    }


EMPTY = encode({})


def blob_oid(data: bytes) -> str:
    """The id that git gives a file of these bytes."""
    return _git_id("blob", data)


def pointer_oid(sha256: str, size: int) -> str:
    """The id that git gives the LFS pointer to such a file (Git LFS specification, version 1)."""
    return blob_oid(f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode())


def _tree_oid(tree: Tree) -> str:
    def order(item: tuple[str, File | Folder]) -> bytes:
        return item[0].encode() + (b"/" if isinstance(item[1], Folder) else b"")  # git sorts folders as if by path

    return _git_id(
        "tree",
        b"".join(
            (b"40000 " if isinstance(node, Folder) else b"100644 ") + name.encode() + b"\0" + bytes.fromhex(node.oid)
            for name, node in sorted(tree.items(), key=order)
        ),
    )


def _git_id(kind: str, data: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def walk(
    tree: Tree, load: Callable[[str], Tree], *, after: tuple[str, ...] = (), prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], File | Folder]]:
    """Every file and folder below `tree` with its path in parts, in the order of the paths, from behind `after`.

    Folders that lie wholly before `after` are not loaded.
    """
    for name, node in tree.items():
        path = (*prefix, name)
        if path > after:
            yield path, node
        if isinstance(node, Folder) and path >= after[: len(path)]:
            yield from walk(load(node.tree), load, after=after, prefix=path)


@dataclass
class _Draft:
    nodes: dict[str, File | Folder | _Draft]
    changed: bool = False


@dataclass
class Workspace:
    """A tree that is being edited; only the folders on the way to an edit are loaded.

    Attributes:
        root: The SHA-256 of the tree that the edit starts from.
        load: Gives the tree that is stored under a SHA-256.
        folder_limit: The most entries of one folder.
    """

    root: str
    load: Callable[[str], Tree]
    folder_limit: int
    _draft: _Draft = field(init=False)

    def __post_init__(self) -> None:
        self._draft = _Draft(dict(self.load(self.root)))

    def put(self, path: str, file: File) -> None:
        """Let `path` be `file`.

        Raises:
            Conflict: A folder is there, or one of its parents is a file.
        """
        *parents, name = path.split("/")
        draft = self._draft
        for part in parents:
            draft.changed = True
            draft.nodes.setdefault(part, _Draft({}))
            inner = self._open(draft, part)
            if inner is None:
                raise Conflict(f"`{path}` cannot be: `{part}` on its way is a file", path=path)
            draft = inner
        if isinstance(draft.nodes.get(name, file), Folder | _Draft):
            raise Conflict(f"`{path}` cannot be a file: it is a folder", path=path)
        draft.changed = True
        draft.nodes[name] = file

    def remove(self, path: str, *, folder: bool) -> bool:
        """Take the file, or the folder with all that is in it, away; returns whether there was such a one."""
        *parents, name = path.split("/")
        drafts = [self._draft]
        for part in parents:
            inner = self._open(drafts[-1], part)
            if inner is None:
                return False
            drafts.append(inner)
        found = drafts[-1].nodes.get(name)
        if found is None or isinstance(found, File) == folder:
            return False
        del drafts[-1].nodes[name]
        for draft in drafts:
            draft.changed = True
        return True

    def _open(self, draft: _Draft, name: str) -> _Draft | None:
        node = draft.nodes.get(name)
        if isinstance(node, Folder):
            node = draft.nodes[name] = _Draft(dict(self.load(node.tree)))
        return node if isinstance(node, _Draft) else None

    def seal(self) -> tuple[str, dict[str, bytes]]:
        """(SHA-256 of the new root, the encodings of the folders that changed by their SHA-256).

        Raises:
            Conflict: Names in one folder differ only in case or in Unicode form.
            TooLarge: A folder has too many entries.
        """
        encodings: dict[str, bytes] = {}
        return self._seal(self._draft, "", encodings).tree, encodings

    def _seal(self, draft: _Draft, path: str, encodings: dict[str, bytes]) -> Folder:
        tree: dict[str, File | Folder] = {}
        for name, node in draft.nodes.items():
            sealed = self._seal(node, f"{path}{name}/", encodings) if isinstance(node, _Draft) else node
            if sealed != _NOTHING:  # git knows no empty folders
                tree[name] = sealed
        if draft.changed:
            self._check(tree, path)
        data = encode(tree)
        encodings[hash_bytes(data)] = data
        return Folder(_tree_oid(tree), hash_bytes(data))

    def _check(self, tree: Tree, path: str) -> None:
        if len(tree) > self.folder_limit:
            raise TooLarge(f"`{path}` would have more than {self.folder_limit} entries", limit=self.folder_limit)
        seen: dict[str, str] = {}
        for name in tree:
            other = seen.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
            if other != name:
                raise Conflict(
                    f"`{path}{other}` and `{path}{name}` are one file where case does not count",
                    paths=[path + other, path + name],
                )


_NOTHING = Folder(_tree_oid({}), hash_bytes(EMPTY))
