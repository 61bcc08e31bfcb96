"""Where things lie in a folder registry; whoever reads or writes one asks here.

    <root>/<org>/<name>/refs/v<N>            one line: the commit
    <root>/<org>/<name>/revisions/<commit>/  kernel.json  wheels/*.whl  build/<variant>/...  README.md
    <root>/<org>/<name>/.incoming-*          a revision that is being written

A commit is the SHA-256 of the bytes of `kernel.json`, which lists the digest of every wheel and of every file
below `build/`: it proves all that a loader reads. The README.md, for people, is in no index: nothing proves it,
and it may change under one commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kernelworks.model.digest import FileEntry
from kernelworks.model.index import Index
from kernelworks.transport.repo_id import check_commit_or_ref, check_repo_id

__all__ = [
    "BUILD",
    "INCOMING",
    "listed_files",
    "ref_path",
    "refs_folder",
    "repo_folder",
    "revision_folder",
]

BUILD = "build"
INCOMING = ".incoming-"


def repo_folder(root: Path, repo_id: str) -> Path:
    """The folder of one repository."""
    return root / check_repo_id(repo_id)


def refs_folder(root: Path, repo_id: str) -> Path:
    """The folder with one file per ref."""
    return repo_folder(root, repo_id) / "refs"


def ref_path(root: Path, repo_id: str, ref: str) -> Path:
    """The file of one ref (`v3`)."""
    return refs_folder(root, repo_id) / check_commit_or_ref(ref)


def revision_folder(root: Path, repo_id: str, commit: str) -> Path:
    """The folder of one revision."""
    return repo_folder(root, repo_id) / "revisions" / check_commit_or_ref(commit)


def listed_files(index: Index) -> Iterator[FileEntry]:
    """Every file that `index` proves, its path relative to the revision's folder."""
    for variant in index.variants:
        yield variant.wheel
        yield from (replace(entry, path=f"{BUILD}/{variant.name}/{entry.path}") for entry in variant.files)
