"""Garbage collection: what no commit refers to, and nobody is about to commit, is deleted.

It is safe while uploads run. An upload writes its row of `blobs` anew before it looks for the bytes; here that row is
deleted, if it is old and nobody holds it, in the same transaction as the bytes. Whichever comes second sees the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, exists, select

from kernelworks_server.blobs import Blobs
from kernelworks_server.database.engine import Database, now
from kernelworks_server.database.tables import blobs, holdings, xorbs

__all__ = ["Collected", "collect"]


@dataclass(frozen=True)
class Collected:
    """What was deleted: blobs and their bytes, uploads that no commit came for, and uploads that broke off."""

    blobs: int
    bytes: int
    uploads: int
    remains: int


def collect(database: Database, store: Blobs, grace: timedelta) -> Collected:
    """Delete what nobody refers to and was uploaded longer ago than `grace`."""
    before = now() - grace // timedelta(microseconds=1)
    with database.write() as connection:
        waiting = holdings.c.committed.is_(False) & (holdings.c.touched < before)
        uploads = connection.execute(delete(holdings).where(waiting)).rowcount
    unheld = (
        (blobs.c.touched < before)
        & ~exists().where(holdings.c.sha256 == blobs.c.sha256)
        & ~exists().where(xorbs.c.sha256 == blobs.c.sha256)
    )
    with database.read() as connection:
        candidates = connection.execute(select(blobs.c.sha256, blobs.c.size).where(unheld)).all()
    sizes = []
    for sha256, size in candidates:
        with database.write() as connection:  # one by one, so that nobody waits for long
            if connection.execute(delete(blobs).where(blobs.c.sha256 == sha256, unheld)).rowcount:
                store.remove(sha256)
                sizes.append(size)
    return Collected(len(sizes), sum(sizes), uploads, store.sweep())
