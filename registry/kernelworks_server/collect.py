"""Garbage collection: what no commit refers to, and nobody is about to commit, is deleted.

It is safe while uploads run. An upload writes its row of `blobs` anew before it looks for the bytes; here that row is
deleted, if it is old and nobody holds it, in the same transaction as the bytes. Whichever comes second sees the other.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta

from sqlalchemy import delete, exists, select
from sqlalchemy.exc import IntegrityError

from kernelworks.transport.repo_id import is_work_ref
from kernelworks_server import events, history
from kernelworks_server.blobs import Blobs
from kernelworks_server.database.engine import Database, now
from kernelworks_server.database.tables import blobs, holdings, refs, repos, xorbs

__all__ = ["Collected", "collect"]

_FORSAKEN = timedelta(days=1)


@dataclass(frozen=True)
class Collected:
    """What was deleted.

    Attributes:
        blobs: How many there were, of
        bytes: so many bytes together.
        uploads: Files that no commit came for.
        xorbs: What Xet clients sent so long ago that they refer to it no more.
        branches: What killed publishers worked on.
        remains: Objects of uploads that broke off.
    """

    blobs: int
    bytes: int
    uploads: int
    xorbs: int
    branches: int
    remains: int


def collect(database: Database, store: Blobs, grace: timedelta, xorb_age: timedelta) -> Collected:
    """Delete what nobody refers to and was uploaded longer ago than `grace`, or `xorb_age` where it is a xorb."""
    before = _ago(grace)
    with database.write() as connection:
        waiting = holdings.c.committed.is_(False) & (holdings.c.touched < before)
        uploads = connection.execute(delete(holdings).where(waiting)).rowcount
        stale = (blobs.c.sha256 == xorbs.c.sha256) & (blobs.c.touched < _ago(xorb_age))
        old_xorbs = connection.execute(delete(xorbs).where(exists().where(stale))).rowcount
    sizes = _drop_unheld(database, store, before)
    found = Collected(len(sizes), sum(sizes), uploads, old_xorbs, _drop_forsaken(database), store.sweep())
    if any(asdict(found).values()):
        with database.write() as connection:
            events.record(connection, None, "registry.gc", events.REGISTRY, **asdict(found))
    return found


def _drop_unheld(database: Database, store: Blobs, before: int) -> list[int]:
    """The sizes of the blobs that were deleted: nobody refers to them."""
    unheld = (
        (blobs.c.touched < before)
        & ~exists().where(holdings.c.sha256 == blobs.c.sha256)
        & ~exists().where(xorbs.c.sha256 == blobs.c.sha256)
    )
    with database.read() as connection:
        candidates = connection.execute(select(blobs.c.sha256, blobs.c.size).where(unheld)).all()
    sizes = []
    for sha256, size in candidates:
        with suppress(IntegrityError), database.write() as connection:  # somebody began to refer to it meanwhile
            if connection.execute(delete(blobs).where(blobs.c.sha256 == sha256, unheld)).rowcount:  # not for long
                store.remove(sha256)
                sizes.append(size)
    return sizes


def _drop_forsaken(database: Database) -> int:
    """How many branches were deleted that publishers, who delete them, began longer ago than any of them works."""
    query = select(refs.c.repo, refs.c.name, repos.c.repo_id).join(repos, repos.c.id == refs.c.repo)
    with database.read() as connection:
        forsaken = [
            row
            for row in connection.execute(query.where(refs.c.kind == "branch")).all()
            if is_work_ref(row.name)
            and (events.latest(connection, "branch.create", row.repo_id, name=row.name) or 0) < _ago(_FORSAKEN)
        ]
    for repo, name, repo_id in forsaken:
        with database.write() as connection:
            history.claim(connection, repo)
            connection.execute(delete(refs).where(refs.c.repo == repo, refs.c.name == name))
            events.record(connection, None, "branch.delete", repo_id, name=name)
    return len(forsaken)


def _ago(age: timedelta) -> int:
    return now() - age // timedelta(microseconds=1)
