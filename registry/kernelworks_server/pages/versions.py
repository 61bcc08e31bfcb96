"""The versions of a kernel, newest first, each with what its last commit changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelworks.model.index import Index
from kernelworks.transport.repo_id import version_of
from kernelworks_server.pages.shelf import Shelf
from kernelworks_server.repositories import DEFAULT_BRANCH, Commit, Ref, Repo, Repositories

__all__ = ["Changes", "Release", "Told", "changes", "newest", "releases", "tell"]

_TOLD = 30  # versions of one page; each costs a query


@dataclass(frozen=True)
class Release:
    """One version, and the commit that its branch is at."""

    number: int
    branch: str
    commit: str


@dataclass(frozen=True)
class Changes:
    """Names of variants that came, went, or have another wheel than before."""

    since: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    rebuilt: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """One version as a page tells of it; `changes` is None where there is nothing to compare with."""

    release: Release
    commit: Commit
    count: int | None
    changes: Changes | None


def releases(refs: Sequence[Ref]) -> list[Release]:
    """The branches that are versions, newest first."""
    found = [
        Release(number, ref.name, ref.commit)
        for ref in refs
        if ref.kind == "branch" and (number := version_of(ref.name)) is not None
    ]
    return sorted(found, key=lambda release: -release.number)


def newest(refs: Sequence[Ref]) -> str:
    """The revision that a page shows unless told otherwise: the newest version, or else `main`."""
    found = releases(refs)
    return found[0].branch if found else DEFAULT_BRANCH


def tell(repositories: Repositories, shelf: Shelf, repo: Repo, found: Sequence[Release]) -> list[Told]:
    """What to say of the newest of the versions `found`."""
    told = []
    for release, older in zip(found[:_TOLD], [*found[1:], None], strict=False):
        commit = repositories.commit_info(repo, release.commit)
        new = shelf.index(repo, release.commit)
        count = len(new.variants) if isinstance(new, Index) else None
        told.append(Told(release, commit, count, _since_before(shelf, repo, commit, new, older)))
    return told


def _since_before(shelf: Shelf, repo: Repo, commit: Commit, new: object, older: Release | None) -> Changes | None:
    """Compared with the commit before; where that has no index, this is a first commit: with the version before."""
    if not isinstance(new, Index):
        return None
    old = shelf.index(repo, commit.parent) if commit.parent else None
    if isinstance(old, Index) and old.version == new.version:
        return changes(old, new, "the commit before")
    old = shelf.index(repo, older.commit) if older else None
    return changes(old, new, f"version {older.number}") if older and isinstance(old, Index) else None


def changes(old: Index, new: Index, since: str) -> Changes:
    """How `new` differs from `old`."""
    before = {variant.name: variant.wheel.sha256 for variant in old.variants}
    after = {variant.name: variant.wheel.sha256 for variant in new.variants}
    return Changes(
        since,
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        rebuilt=tuple(name for name in after if before.get(name, after[name]) != after[name]),
    )
