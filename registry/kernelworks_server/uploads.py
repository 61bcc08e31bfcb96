"""What was sent to repositories: files that wait for their commit, and the xorbs of Xet clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Table, select, update
from sqlalchemy.exc import IntegrityError

from kernelworks_server.blobs import Blobs
from kernelworks_server.database.batches import batches
from kernelworks_server.database.engine import Database, now, upsert
from kernelworks_server.database.tables import blobs, holdings, xorbs
from kernelworks_server.errors import Conflict, Unprocessable
from kernelworks_server.records import Repo

__all__ = ["Uploads", "keep_for_good"]


class Uploads:
    """What was sent to all repositories of one registry; nobody finds what another repository was sent."""

    def __init__(self, database: Database, store: Blobs) -> None:
        self._database = database
        self._store = store

    def receive(self, repo: Repo, chunks: Iterable[bytes], *, expected: str | None, limit: int) -> tuple[str, int]:
        """(SHA-256, size) of what `chunks` yield, kept for a commit to this repository.

        Raises:
            Conflict: The repository is gone meanwhile, or as `Blobs.put`.
            TooLarge, Unprocessable: As `Blobs.put`.
        """
        sha256, size = self._store.put(chunks, expected=expected, limit=limit)
        holding = {"repo": repo.id, "sha256": sha256, "committed": False, "touched": now()}
        self._keep(repo, holdings, holding, update=["touched"])
        return sha256, size

    def held(self, repo: Repo, sha256s: Iterable[str]) -> dict[str, int]:
        """The sizes of those files that this repository has or was sent; their wait for a commit starts anew."""
        sizes: dict[str, int] = {}
        with self._database.write() as connection:
            for some in batches(sorted(set(sha256s))):
                chosen = (holdings.c.repo == repo.id) & holdings.c.sha256.in_(some)
                connection.execute(
                    update(holdings).where(chosen, holdings.c.committed.is_(False)).values(touched=now())
                )
                query = select(blobs.c.sha256, blobs.c.size).join(holdings, holdings.c.sha256 == blobs.c.sha256)
                sizes.update({row.sha256: row.size for row in connection.execute(query.where(chosen))})
        return sizes

    def receive_xorb(self, repo: Repo, xorb_hash: str, chunks: Iterable[bytes], *, limit: int) -> bool:
        """Keep a xorb of this repository, as long as the repository lives; returns whether it is new."""
        sha256, _ = self._store.put(chunks, expected=None, limit=limit)
        known = self.xorb(repo, xorb_hash) is not None
        self._keep(repo, xorbs, {"repo": repo.id, "hash": xorb_hash, "sha256": sha256})
        return not known

    def xorb(self, repo: Repo, xorb_hash: str) -> str | None:
        """The SHA-256 that the bytes of this repository's xorb are kept under, or None where it has none such."""
        query = select(xorbs.c.sha256).where(xorbs.c.repo == repo.id, xorbs.c.hash == xorb_hash)
        with self._database.read() as connection:
            return connection.scalar(query)

    def _keep(self, repo: Repo, table: Table, row: dict[str, Any], update: Sequence[str] = ()) -> None:
        try:
            with self._database.write() as connection:
                upsert(connection, table, [row], update=update)
        except IntegrityError as error:
            raise Conflict(
                f"`{repo.repo_id}` was deleted, or the upload collected, meanwhile", hint="upload the file again"
            ) from error


def keep_for_good(connection: Connection, repo: Repo, sha256s: set[str]) -> None:
    """Mark these files as committed, which keeps them from garbage collection.

    Raises:
        Unprocessable: Some are collected already.
    """
    count = 0
    for some in batches(sorted(sha256s)):
        chosen = (holdings.c.repo == repo.id) & holdings.c.sha256.in_(some)
        count += connection.execute(update(holdings).where(chosen).values(committed=True)).rowcount
    if count != len(sha256s):
        raise Unprocessable("some of the uploads were too old and have been collected", hint="upload the files again")
