"""Which kernels a search finds: by name in the database, by what their newest version holds here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernelworks.backends import registered
from kernelworks.model.index import Index
from kernelworks.model.variant import ARCH_PATTERN, BackendFacts, FrameworkFacts, Variant
from kernelworks.model.variant_name import Version2, parse_version
from kernelworks_server.errors import BadRequest
from kernelworks_server.pages.matrix import matrix
from kernelworks_server.pages.shelf import Shelf
from kernelworks_server.pages.versions import newest, releases
from kernelworks_server.repositories import Repo, Repositories
from kernelworks_server.rights import Actor

__all__ = ["Found", "Summary", "Wish", "find", "serves"]

_SHOWN = 24
_AT_ONCE = 100
_LOOKED_AT = 500  # kernels whose index one request may look into
_LONGEST = 100
_TORCH = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?", re.ASCII)


@dataclass(frozen=True)
class Wish:
    """What a kernel must have: one variant for all of backend, device arch and torch (major, minor)."""

    text: str = ""
    author: str | None = None
    backend: str | None = None
    arch: str | None = None
    torch: Version2 | None = None

    @classmethod
    def of(cls, text: str = "", backend: str = "", arch: str = "", torch: str = "", author: str | None = None) -> Wish:
        """The wish that a form spells out; empty fields wish for nothing.

        Raises:
            BadRequest: A field makes no sense.
        """
        if len(text) > _LONGEST:
            raise BadRequest(f"a name to search for has at most {_LONGEST} characters")
        if arch and not re.fullmatch(ARCH_PATTERN, arch):
            raise BadRequest(f"`{arch[:40]}` is not a device arch", hint="archs look like `9.0`, `8.6` or `gfx942`")
        if torch and not _TORCH.fullmatch(torch):
            raise BadRequest(f"`{torch[:40]}` is not a version of torch", hint="versions look like `2.13`")
        return cls(text, author, backend or None, arch or None, parse_version(torch) if torch else None)

    @property
    def looks_inside(self) -> bool:
        """Whether an index must be read to know."""
        return any((self.backend, self.arch, self.torch))


@dataclass(frozen=True)
class Summary:
    """One kernel in a list; the facts are those of its newest version, empty where it has no index."""

    repo: Repo
    version: int | None
    variants: int
    backends: tuple[str, ...]
    archs: tuple[str, ...]
    frameworks: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """One page of a list, what to give as `after` for the next one, and how many kernels were looked at."""

    kernels: tuple[Summary, ...]
    after: str | None
    looked_at: int


def find(repositories: Repositories, shelf: Shelf, actor: Actor, wish: Wish, after: str | None) -> Found:
    """The next kernels that `actor` may read and that are as wished for."""
    found: list[Summary] = []
    looked_at = 0
    for repo in _named(repositories, actor, wish, after):
        if len(found) == _SHOWN or looked_at == _LOOKED_AT:
            return Found(tuple(found), after, looked_at)
        looked_at += 1
        after = repo.repo_id
        version, index = _newest(repositories, shelf, repo)
        variants = index.variants if index else ()
        if not wish.looks_inside or any(serves(variant, wish) for variant in variants):
            found.append(_summary(repo, version, variants))
    return Found(tuple(found), None, looked_at)


def _named(repositories: Repositories, actor: Actor, wish: Wish, after: str | None) -> Iterator[Repo]:
    while True:
        page = repositories.search(
            actor, kind="kernel", text=wish.text, author=wish.author, limit=_AT_ONCE, after=after
        )
        yield from page
        if not page:
            return
        after = page[-1].repo_id


def _newest(repositories: Repositories, shelf: Shelf, repo: Repo) -> tuple[int | None, Index | None]:
    """(number, index) of the newest version; the index of `main` where there are no versions."""
    refs = repositories.refs(repo)
    versions = releases(refs)
    revision = newest(refs)
    for ref in refs:
        if ref.name == revision:
            index = shelf.index(repo, ref.commit)
            return (versions[0].number if versions else None), (index if isinstance(index, Index) else None)
    return None, None  # deleted meanwhile


def _summary(repo: Repo, version: int | None, variants: tuple[Variant, ...]) -> Summary:
    table = matrix(variants)
    return Summary(
        repo,
        version,
        len(variants),
        backends=tuple(dict.fromkeys(column.backend for column in table.columns)),
        archs=tuple(sorted({arch for variant in variants for arch in variant.backend.archs.spelled()}, key=_numbers)),
        frameworks=tuple(dict.fromkeys(row.framework for row in table.rows)),
    )


def _numbers(text: str) -> list[tuple[int, str]]:
    """Sorts `8.6` before `10.0`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text)]


def serves(variant: Variant, wish: Wish) -> bool:
    """Whether this variant has the backend, runs on the arch, and takes the torch that are wished for."""
    return (
        wish.backend in {None, variant.backend.kind}
        and (wish.arch is None or _runs(variant.backend, wish.arch))
        and (wish.torch is None or _takes(variant.framework, wish.torch))
    )


def _runs(backend: BackendFacts, arch: str) -> bool:
    if arch in {*backend.archs.sass, *backend.archs.ptx}:
        return True
    spec = registered().get(backend.kind)
    try:
        return bool(spec and spec.runs and spec.runs(backend.archs, arch))
    except ValueError:  # an arch of another backend
        return False


def _takes(framework: FrameworkFacts, torch: Version2) -> bool:
    if framework.version is None:
        return True
    if framework.kind == "torch-stable-abi":
        return framework.version <= torch
    return framework.kind == "torch" and framework.version == torch
