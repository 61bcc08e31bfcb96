"""Which kernels a search finds, and what their newest versions are for: few queries, however many kernels there are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, exists, select

from kernelworks_server.database.tables import notices, offers, repos, shelf, yanks
from kernelworks_server.errors import BadRequest
from kernelworks_server.listing import listed, repo_of
from kernelworks_server.pages.matrix import backend_label, backend_order, framework_label, framework_order
from kernelworks_server.profiles import Profile
from kernelworks_server.records import Repo
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services
from kernelworks_server.wishes import Wish, serves

__all__ = ["Found", "Summary", "find"]

_SHOWN = 24
_LONGEST = 100
_RARE = 500  # kernels: so few are named in the query; of more, some are met soon on the way through all


@dataclass(frozen=True)
class Summary:
    """One kernel in a list; the facts are those of its newest version, empty where it has no index.

    Attributes:
        version: The newest version, or None where there is none, and the facts are those of `main`.
        variants: How many there are.
        downloads: In the last 30 days.
        deprecated: Whether its publisher says that it is.
        yanked: Whether even the newest version is yanked, and so all of them.
    """

    repo: Repo
    version: int | None
    variants: int
    backends: tuple[str, ...]
    archs: tuple[str, ...]
    frameworks: tuple[str, ...]
    downloads: int
    deprecated: bool
    yanked: bool


@dataclass(frozen=True)
class Found:
    """One page of a list, and what to give as `after` for the next one."""

    kernels: tuple[Summary, ...]
    after: str | None


def find(
    services: Services, actor: Actor, wish: Wish, *, text: str = "", author: str | None = None, after: str | None = None
) -> Found:
    """The next kernels that `actor` may read and that have a variant as wished for.

    Raises:
        BadRequest: `text` is longer than any name.
    """
    if len(text) > _LONGEST:
        raise BadRequest(f"a name to search for has at most {_LONGEST} characters")
    query = (
        listed(actor, "kernel", text=text, author=author, after=after)
        .add_columns(shelf.c.id.label("shelf"), shelf.c.version, shelf.c.variants, notices.c.message, yanks.c.reason)
        .join(shelf, (shelf.c.repo == repos.c.id) & shelf.c.newest, isouter=True)
        .join(notices, notices.c.repo == repos.c.id, isouter=True)
        .join(yanks, (yanks.c.repo == repos.c.id) & (yanks.c.commit == shelf.c.commit), isouter=True)
    )
    profiles = services.shelf.profiles
    with services.database.read() as connection:
        if wish != Wish():
            query = query.where(_offering(connection, profiles.offered(connection, lambda found: serves(found, wish))))
        rows = connection.execute(query.limit(_SHOWN + 1)).all()
        shown = rows[:_SHOWN]
        held = _held(connection, [row.shelf for row in shown])
        known = profiles.known(connection, {number for numbers in held.values() for number in numbers})
    downloads = services.downloads.of_month([row.id for row in shown])
    kernels = tuple(_summary(row, [known[number] for number in held[row.shelf]], downloads) for row in shown)
    return Found(kernels, kernels[-1].repo.repo_id if len(rows) > _SHOWN else None)


def _offering(connection: Connection, fitting: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether the newest version of a kernel offers something `fitting`."""
    found = select(shelf.c.repo).join(offers, offers.c.shelf == shelf.c.id).where(fitting, shelf.c.newest)
    kernels = connection.scalars(found.limit(_RARE + 1)).all()
    if len(kernels) <= _RARE:
        return repos.c.id.in_(set(kernels))
    return exists().where(offers.c.shelf == shelf.c.id, fitting)


def _held(connection: Connection, places: Iterable[int | None]) -> Mapping[int | None, Sequence[int]]:
    """The numbers of the profiles at each of these places on the shelf."""
    held: dict[int | None, list[int]] = defaultdict(list)
    query = select(offers.c.shelf, offers.c.profile).where(offers.c.shelf.in_([place for place in places if place]))
    for place, number in connection.execute(query):
        held[place].append(number)
    return held


def _summary(row: Row[Any], profiles: Sequence[Profile], downloads: Mapping[int, int]) -> Summary:
    backends = sorted({profile.backend for profile in profiles}, key=backend_order)
    frameworks = sorted({profile.framework for profile in profiles}, key=framework_order)
    archs = {arch for backend in backends for arch in backend.archs.spelled()}
    return Summary(
        repo_of(row),
        row.version,
        row.variants or 0,
        backends=tuple(dict.fromkeys(map(backend_label, backends))),
        archs=tuple(sorted(archs, key=_numbers)),
        frameworks=tuple(dict.fromkeys(framework_label(framework)[0] for framework in frameworks)),
        downloads=downloads[row.id],
        deprecated=row.message is not None,
        yanked=row.reason is not None,
    )


def _numbers(text: str) -> list[tuple[int, str]]:
    """Sorts `8.6` before `10.0`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", text)]
