"""Which texts are repository ids, revisions and versions: checked before a path or a request is made of them."""

from __future__ import annotations

import os
import re

from kernelworks.errors import UsageError

__all__ = [
    "COMMIT_PATTERN",
    "check_commit_or_ref",
    "check_repo_id",
    "is_commit",
    "is_pinned",
    "is_work_ref",
    "version_of",
    "version_ref",
    "work_ref",
]

COMMIT_PATTERN = "[0-9a-f]{40}|[0-9a-f]{64}"
"""Of any registry: SHA-1 or SHA-256 in lower-case hex."""

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?"
_REPO_ID = re.compile(rf"{_PART}/{_PART}", re.ASCII)
_COMMIT = re.compile("[0-9a-f]{64}", re.ASCII)
_VERSION_REF = re.compile(r"v(0|[1-9][0-9]{0,8})", re.ASCII)
_WORK_REF = re.compile(rf"incoming-{_VERSION_REF.pattern}-[0-9a-f]{{8}}", re.ASCII)


def check_repo_id(repo_id: str) -> str:
    """`repo_id`, if it is `org/name`.

    Raises:
        UsageError: It is not; no registry is asked.
    """
    if not isinstance(repo_id, str) or not _REPO_ID.fullmatch(repo_id) or ".." in repo_id:
        raise UsageError(
            f"`{repo_id}` is not a repository id",
            hint="an id is `org/name`: two parts of ASCII letters, digits, `-`, `_` and single `.` inside",
            repo_id=str(repo_id),
        )
    return repo_id


def check_commit_or_ref(revision: str) -> str:
    """`revision`, if it can be a commit or the name of a ref.

    Raises:
        UsageError: It can be neither.
    """
    if not isinstance(revision, str) or not re.fullmatch(_PART, revision, re.ASCII) or ".." in revision:
        raise UsageError(
            f"`{revision}` is not a revision",
            hint="a revision is a commit (40 or 64 hex digits) or a ref such as `v1`",
            revision=str(revision),
        )
    return revision


def is_commit(revision: str) -> bool:
    """Whether `revision` is a commit of a folder registry: the SHA-256 of an index in lower-case hex."""
    return bool(_COMMIT.fullmatch(revision))


def is_pinned(revision: str) -> bool:
    """Whether `revision` is a commit of any registry, which stands for the same files forever."""
    return bool(re.fullmatch(COMMIT_PATTERN, revision, re.ASCII))


def version_ref(version: int) -> str:
    """The ref of a version: `v3`."""
    return f"v{version}"


def version_of(ref: str) -> int | None:
    """The version that `ref` is of, or None where it is another ref."""
    match = _VERSION_REF.fullmatch(ref)
    return int(match[1]) if match else None


def work_ref(version: int) -> str:
    """A ref that nobody has, for a publisher to work on before `version` is whole."""
    return f"incoming-{version_ref(version)}-{os.urandom(4).hex()}"


def is_work_ref(ref: str) -> bool:
    """Whether some publisher made `ref` to work on."""
    return bool(_WORK_REF.fullmatch(ref))
