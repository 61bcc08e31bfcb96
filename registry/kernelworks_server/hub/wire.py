"""The JSON that the Hub's clients expect of each thing: pure functions of the domain's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from kernelworks_server.records import Commit, Entry, Notice, Ref, Repo, Revision

__all__ = ["commit_json", "entry_json", "notice_json", "refs_json", "repo_json", "repo_path", "revision_headers"]


def repo_path(repo: Repo) -> str:
    """The path of the repository's page, from which clients tell its kind."""
    return f"/kernels/{repo.repo_id}" if repo.kind == "kernel" else f"/{repo.repo_id}"


def repo_json(
    repo: Repo, downloads: int, commit: str | None = None, files: Sequence[Entry] | None = None
) -> dict[str, Any]:
    """What `repo_info` and listings tell of a repository.

    Args:
        repo: The repository.
        downloads: In the last 30 days.
        commit: The commit that was asked for.
        files: All its files; never given for kernels, whose older clients stumble over them.
    """
    siblings = {} if files is None else {"siblings": [_sibling(file) for file in files]}
    return {
        "_id": f"{repo.id:024x}",
        "id": repo.repo_id,
        "author": repo.owner,
        "sha": commit,
        "createdAt": _time(repo.created),
        "lastModified": _time(repo.updated),
        "private": repo.private,
        "gated": False,
        "disabled": False,
        "downloads": downloads,
        "likes": 0,
        "tags": [],
        **siblings,
    }


def _sibling(file: Entry) -> dict[str, Any]:
    lfs = {"sha256": file.sha256, "size": file.size, "pointerSize": _pointer_size(file.size)} if file.lfs else None
    shown = {"rfilename": file.path, "size": file.size, "blobId": file.oid}
    return shown if lfs is None else {**shown, "lfs": lfs}


def notice_json(notice: Notice | None) -> dict[str, Any]:
    """That a repository is deprecated, for its description; nothing where it is not."""
    return {} if notice is None else {"deprecated": {"message": notice.message, "successor": notice.successor}}


def revision_headers(at: Revision) -> dict[str, str]:
    """What a loader must know of a file's revision before it uses the file, for who asks for the file alone."""
    said = {
        "X-Kernel-Yanked": at.remarks.yanked,
        "X-Kernel-Deprecated": at.remarks.deprecated.message if at.remarks.deprecated else None,
    }
    remarks = {name: quote(text, safe=" ") for name, text in said.items() if text is not None}
    return {"X-Kernel-Trusted": "true" if at.trusted else "false", **remarks}


def refs_json(refs: Sequence[Ref], yanks: Mapping[str, str]) -> dict[str, Any]:
    """All branches and tags, and why their commits are yanked; this registry has no conversions and pull requests."""

    def of(kind: str, folder: str) -> list[dict[str, str]]:
        return [
            {"name": ref.name, "ref": f"refs/{folder}/{ref.name}", "targetCommit": ref.commit, **_yanked(ref, yanks)}
            for ref in refs
            if ref.kind == kind
        ]

    return {"branches": of("branch", "heads"), "tags": of("tag", "tags"), "converts": [], "pullRequests": []}


def _yanked(ref: Ref, yanks: Mapping[str, str]) -> dict[str, str]:
    return {"yanked": yanks[ref.commit]} if ref.commit in yanks else {}


def entry_json(entry: Entry) -> dict[str, Any]:
    """A file or folder of a tree. No Xet hash: clients then download by plain HTTP."""
    if entry.kind == "directory":
        return {"type": "directory", "oid": entry.oid, "size": 0, "path": entry.path}
    size = entry.size
    lfs = {"oid": entry.sha256, "size": size, "pointerSize": _pointer_size(size)} if entry.lfs else None
    shown = {"type": "file", "oid": entry.oid, "size": size, "path": entry.path}
    return shown if lfs is None else {**shown, "lfs": lfs}


def _pointer_size(size: int) -> int:
    """Bytes of the Git LFS pointer of a file of `size` bytes (Git LFS specification, version 1)."""
    return len("version https://git-lfs.github.com/spec/v1\noid sha256:\nsize \n") + 64 + len(str(size))


def commit_json(commit: Commit) -> dict[str, Any]:
    """One line of a repository's history."""
    return {
        "id": commit.id,
        "title": commit.message,
        "message": commit.description,
        "authors": [{"user": commit.author}],
        "date": _time(commit.created),
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
