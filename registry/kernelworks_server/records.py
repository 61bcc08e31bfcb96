"""What a repository consists of, what a commit may do to it, and which names and paths its parts may have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.decode import Node
from kernelworks.transport.repo_id import check_repo_id
from kernelworks_server.errors import BadRequest, TooLarge

__all__ = [
    "COMMIT_DIGITS",
    "DEFAULT_BRANCH",
    "KINDS",
    "AddFile",
    "Commit",
    "CopyFile",
    "DeleteFile",
    "DeleteFolder",
    "Entry",
    "Notice",
    "Operation",
    "Ref",
    "Remarks",
    "Repo",
    "Revision",
    "check_kind",
    "check_message",
    "check_operations",
    "check_path",
    "check_ref_name",
    "is_commit",
    "split_repo_id",
]

KINDS = ("kernel", "model")
DEFAULT_BRANCH = "main"
COMMIT_DIGITS = 40
"""Hex digits of a commit id: as many as clients know commits by."""
_COMMIT = re.compile(rf"[0-9a-f]{{{COMMIT_DIGITS}}}", re.ASCII)
_REF = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._/-]{0,248}[A-Za-z0-9_-])?", re.ASCII)


@dataclass(frozen=True)
class Repo:
    """One repository; `id` is the registry's own number, which never comes back."""

    id: int
    kind: str
    owner: str
    name: str
    private: bool
    created: datetime
    updated: datetime

    @property
    def repo_id(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True)
class Ref:
    """A branch or a tag; `message` is a tag's."""

    name: str
    kind: str
    commit: str
    message: str


@dataclass(frozen=True)
class Entry:
    """One path of a commit: a `file`, or a `directory`, which has size 0 and no SHA-256.

    `oid` is the id that git gives it: of the LFS pointer where `lfs`.
    """

    path: str
    kind: str
    size: int
    oid: str
    sha256: str
    lfs: bool


@dataclass(frozen=True)
class Commit:
    """One commit; `message` is its first line, `author` the user's name."""

    id: str
    parent: str | None
    message: str
    description: str
    author: str
    created: datetime


@dataclass(frozen=True)
class Notice:
    """That a repository is deprecated: why, and the id of the one to use instead, where there is one."""

    message: str
    successor: str | None


@dataclass(frozen=True)
class Remarks:
    """What its publisher says against a commit: why it is yanked, and that its repository is deprecated."""

    yanked: str | None
    deprecated: Notice | None


@dataclass(frozen=True)
class Revision:
    """What a branch, a tag or the id of a commit means at this moment.

    Attributes:
        repo: The repository.
        commit: The commit's id.
        remarks: What is said against it.
        trusted: Whether this registry trusts the owner as a publisher.
    """

    repo: Repo
    commit: str
    remarks: Remarks
    trusted: bool


@dataclass(frozen=True)
class AddFile:
    """Let `path` be the bytes with this SHA-256, which were uploaded to this repository before."""

    path: str
    sha256: str
    size: int
    lfs: bool


@dataclass(frozen=True)
class CopyFile:
    """Let `path` be what `source_path` is at a revision of this repository, or at the branch's head."""

    path: str
    source_path: str
    source_revision: str | None


@dataclass(frozen=True)
class DeleteFile:
    path: str


@dataclass(frozen=True)
class DeleteFolder:
    path: str


Operation = AddFile | CopyFile | DeleteFile | DeleteFolder


def is_commit(revision: str) -> bool:
    """Whether `revision` has the form of a commit id."""
    return bool(_COMMIT.fullmatch(revision))


def check_kind(kind: str) -> None:
    """Nothing, if `kind` is a kind of repository.

    Raises:
        BadRequest: It is none.
    """
    if kind not in KINDS:
        raise BadRequest(f"`{kind[:40]}` is not a kind of repository (known: {', '.join(KINDS)})", kind=kind)


def split_repo_id(repo_id: str) -> list[str]:
    """Owner and name of the repository id `repo_id`.

    Raises:
        BadRequest: It is none.
    """
    try:
        return check_repo_id(repo_id).split("/")
    except UsageError as error:
        raise BadRequest(error.message, hint=error.hint, repo_id=repo_id) from error


def check_path(path: str) -> str:
    """`path`, if it may be a file's or folder's in a repository: by the rules of every index, and nothing of git's own.

    Raises:
        BadRequest: It may not.
    """
    try:
        Node(path, "the request", "path").relative_path()
    except RepositoryError as error:
        raise BadRequest(error.message, path=path) from error
    if any(part.casefold() == ".git" for part in path.split("/")):
        raise BadRequest(f"`{path}` has a part `.git`, which tools would obey", path=path)
    return path


def check_ref_name(name: str) -> None:
    """Nothing, if a branch or tag can be called `name`: by git's rules, in ASCII, and never like a commit.

    Raises:
        BadRequest: None can.
    """
    parts = name.split("/")
    if (
        not _REF.fullmatch(name)
        or is_commit(name)
        or parts[0] == "refs"
        or any(not part or part.startswith(".") or part.endswith((".", ".lock")) or ".." in part for part in parts)
    ):
        raise BadRequest(f"`{name[:200]}` is not a name that a branch or tag can have", name=name)


def check_message(text: str, limit: int) -> None:
    """Nothing, if a commit or tag can have this message of at most `limit` bytes.

    Raises:
        TooLarge: None can.
    """
    if len(text.encode(errors="replace")) > limit:
        raise TooLarge(f"a message has at most {limit} bytes", limit=limit)


def check_operations(operations: Sequence[Operation], limit: int) -> None:
    """Nothing, if one commit may have these operations, whatever is in the repository.

    Raises:
        BadRequest: A path cannot be, or is written twice.
        TooLarge: There are more than `limit`.
    """
    if len(operations) > limit:
        raise TooLarge(f"a commit has at most {limit} operations, not {len(operations)}", limit=limit)
    written = set()
    for operation in operations:
        check_path(operation.path)
        if isinstance(operation, AddFile | CopyFile):
            if operation.path in written:
                raise BadRequest(f"`{operation.path}` is written twice", path=operation.path)
            written.add(operation.path)
