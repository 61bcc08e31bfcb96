"""The versions of a kernel, newest first, each with what its last commit changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelworks.model.index import Index
from kernelworks.model.variant import Platform, Variant
from kernelworks.model.variant_name import format_version
from kernelworks_server.documents import Documents
from kernelworks_server.pages.matrix import python_label
from kernelworks_server.records import Commit, Repo
from kernelworks_server.releases import Release
from kernelworks_server.repositories import Repositories

__all__ = ["Changes", "Rebuilt", "Told", "changes", "tell"]

_TOLD = 30  # versions of one page; each costs a query


@dataclass(frozen=True)
class Rebuilt:
    """A variant with another wheel than before: by how many bytes it grew, and which of its facts are others."""

    name: str
    growth: int
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Changes:
    """Names of variants that came or went, and those that were rebuilt."""

    since: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    rebuilt: tuple[Rebuilt, ...]


@dataclass(frozen=True)
class Told:
    """One version as a page tells of it.

    Attributes:
        count: Its variants, or None where it has no readable index.
        changes: None where there is nothing to compare with.
        yanked: Why its commit is yanked, or None where it is not.
    """

    release: Release
    commit: Commit
    count: int | None
    changes: Changes | None
    yanked: str | None


def tell(
    repositories: Repositories, documents: Documents, repo: Repo, found: Sequence[Release], yanks: Mapping[str, str]
) -> list[Told]:
    """What to say of the newest of the versions `found`; `yanks` are the reasons by commit."""
    told = []
    for release, older in zip(found[:_TOLD], [*found[1:], None], strict=False):
        commit = repositories.commit_info(repo, release.commit)
        new = documents.index(repo, release.commit)
        count = len(new.variants) if isinstance(new, Index) else None
        changed = _since_before(documents, repo, commit, new, older)
        told.append(Told(release, commit, count, changed, yanks.get(release.commit)))
    return told


def _since_before(
    documents: Documents, repo: Repo, commit: Commit, new: object, older: Release | None
) -> Changes | None:
    """Compared with the commit before; where that has no index, this is a first commit: with the version before."""
    if not isinstance(new, Index):
        return None
    old = documents.index(repo, commit.parent) if commit.parent else None
    if isinstance(old, Index) and old.version == new.version:
        return changes(old, new, "the commit before")
    old = documents.index(repo, older.commit) if older else None
    return changes(old, new, f"version {older.number}") if older and isinstance(old, Index) else None


def changes(old: Index, new: Index, since: str) -> Changes:
    """How `new` differs from `old`."""
    before = {variant.name: variant for variant in old.variants}
    after = {variant.name: variant for variant in new.variants}
    kept = [(before[name], variant) for name, variant in after.items() if name in before]
    return Changes(
        since,
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        rebuilt=tuple(
            Rebuilt(new.name, new.wheel.size - old.wheel.size, tuple(_differences(old, new)))
            for old, new in kept
            if old.wheel.sha256 != new.wheel.sha256
        ),
    )


def _differences(old: Variant, new: Variant) -> Iterator[str]:
    """The facts of a rebuilt variant that matter to who loads it and are others than before, in words."""
    for label, before, after in (
        ("", _glibc(old.platform), _glibc(new.platform)),
        ("", python_label(old.python_abi), python_label(new.python_abi)),
        ("torch symbols", str(len(old.torch_symbols.names)), str(len(new.torch_symbols.names))),
    ):
        if before != after:
            yield f"{label} {before or 'any'} → {after or 'any'}".strip()
    for label, gone, come in (
        ("archs", old.backend.archs.spelled(), new.backend.archs.spelled()),
        ("libraries", old.libraries, new.libraries),
        ("CPU features", old.cpu_features, new.cpu_features),
        ("Python packages", old.python_depends, new.python_depends),
    ):
        more = (f"+{name}" for name in come if name not in gone)
        less = (f"\N{MINUS SIGN}{name}" for name in gone if name not in come)
        if moved := " ".join([*more, *less]):
            yield f"{label} {moved}"


def _glibc(platform: Platform) -> str:
    return f"glibc {format_version(platform.glibc)}" if platform.glibc else ""
