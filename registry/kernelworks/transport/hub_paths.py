"""The paths of the Hub's protocol that the loader asks for, below the endpoint of a registry."""

from __future__ import annotations

import re
from urllib.parse import quote

from kernelworks.transport.directory_layout import BUILD
from kernelworks.transport.repo_id import check_commit_or_ref, check_repo_id

__all__ = ["path_of", "publisher_path", "refs_path", "repo_id_of", "tree_path"]

_RESOLVE = re.compile("kernels/([^/]+/[^/]+)/resolve/.+")


def refs_path(repo_id: str) -> str:
    """All refs of a repository."""
    return f"api/kernels/{check_repo_id(repo_id)}/refs"


def path_of(repo_id: str, revision: str, file: str) -> str:
    """One file of a revision."""
    return f"kernels/{check_repo_id(repo_id)}/resolve/{check_commit_or_ref(revision)}/{quote(file)}"


def tree_path(repo_id: str, commit: str) -> str:
    """The first page of the list of all files below `build/`."""
    return f"api/kernels/{check_repo_id(repo_id)}/tree/{check_commit_or_ref(commit)}/{BUILD}?recursive=true"


def publisher_path(repo_id: str) -> str:
    """What the registry tells of the `org` of `org/name`."""
    return f"api/organizations/{check_repo_id(repo_id).partition('/')[0]}/overview"


def repo_id_of(path: str) -> str | None:
    """The repository that `path`, one as `path_of` gives them, is of, or None for another path."""
    found = _RESOLVE.fullmatch(path)
    return check_repo_id(found[1]) if found else None
