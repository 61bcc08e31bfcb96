"""What a registry says of refs, revisions and files: the values that every transport answers with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from kernelworks.model.decode import Node
from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.verify import Fault

__all__ = ["ListedFile", "Ref", "Revision", "Tree"]


@dataclass(frozen=True)
class Ref:
    """What a ref points to: a commit, and why its publisher has yanked it, if so."""

    commit: str
    yanked: str | None = None


@dataclass(frozen=True)
class ListedFile:
    """A file of a revision as the registry lists it; the registry alone says that these are its bytes.

    Attributes:
        path: Relative to the revision's root.
        size: In bytes.
        oid: SHA-1 in hex that git gives the file; of one in LFS it is that of the pointer.
        sha256: Of a file in LFS, in hex.
    """

    path: str
    size: int
    oid: str
    sha256: str | None

    def fault_of(self, data: bytes) -> Fault | None:
        """How `data` is not this file."""
        if len(data) != self.size:
            return Fault(".", f"{self.size} bytes", f"{len(data)} bytes")
        if self.sha256:
            expected, got = f"sha256 {self.sha256}", f"sha256 {hash_bytes(data)}"
        else:
            blob = hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False)  # as git does
            expected, got = f"git object {self.oid}", f"git object {blob.hexdigest()}"
        return None if expected == got else Fault(".", expected, got)

    def to_json(self) -> dict[str, Any]:
        lfs = {"lfs": {"oid": self.sha256}} if self.sha256 else {}
        return {"path": self.path, "size": self.size, "oid": self.oid, **lfs}

    @classmethod
    def from_json(cls, node: Node) -> ListedFile:
        """The file that `node`, an entry of a tree in the Hub's protocol, describes."""
        lfs = node.opt("lfs")
        return cls(
            path=node.get("path").relative_path(),
            size=node.get("size").natural(),
            oid=node.get("oid").text(pattern="[0-9a-f]{40}"),
            sha256=lfs.get("oid").sha256() if lfs else None,
        )


class Tree(Protocol):
    """The files of revisions that have no index."""

    location: str

    def list_files(self, repo_id: str, commit: str) -> tuple[ListedFile, ...]:
        """Every file below `build/`, sorted by path.

        Raises:
            RepositoryError: No such revision, or the list is malformed.
        """

    def read(self, repo_id: str, commit: str, file: ListedFile) -> bytes:
        """The bytes of a small file, which are those that were listed.

        Raises:
            RepositoryError: No such file.
            VerifyError: They are others.
        """

    def open(self, repo_id: str, commit: str, entry: FileEntry) -> BinaryIO:
        """As `Transport.open`."""

    def locate(self, repo_id: str, commit: str, path: str) -> str:
        """As `Transport.locate`."""


@dataclass(frozen=True)
class Revision:
    """One revision of a repository.

    Attributes:
        repo_id: Its repository, by the name that it has now.
        commit: Its id.
        index: The bytes of its index; None where another program has built it.
        tree: Where its files are read where it has no index.
        yanked: Why its publisher has yanked this commit, if so.
        deprecated: What its publisher says to who still uses the repository, if anything.
        etag: The registry's tag for the bytes of the index, which it may be asked with.
    """

    repo_id: str
    commit: str
    index: bytes | None
    tree: Tree | None = None
    yanked: str | None = None
    deprecated: str | None = None
    etag: str | None = None
