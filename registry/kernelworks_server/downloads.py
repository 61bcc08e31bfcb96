"""How often the variants of each repository are downloaded, by day.

Counted in memory and written every few seconds, never by a request: a process that is killed forgets its last counts,
one that is stopped does not. What counts is a variant's wheel, or of its folder the one file that every client reads of
it, asked for by GET and from its first byte on.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.exc import SQLAlchemyError

from kernelworks.model.index import Index
from kernelworks.model.variant import Variant
from kernelworks_server.database.batches import batches
from kernelworks_server.database.engine import Database, now, upsert
from kernelworks_server.database.tables import downloads, repos

__all__ = ["MONTH", "Downloads", "variant_at"]

MONTH = 30
"""Days that a number without a time is about."""
_EPOCH = date(1970, 1, 1)
_DAY = timedelta(days=1) // timedelta(microseconds=1)
_BUILD = "build/"
_LIBRARIES = (".so", ".pyd", ".dylib")
_LONGEST = 200  # characters of a variant's name


class Downloads:
    """The counts of one registry."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._new: Counter[tuple[int, int, str]] = Counter()
        self.total = 0  # since this process began

    def count(self, repo: int, variant: str) -> None:
        """One more download of this variant today."""
        with self._lock:
            self._new[repo, now() // _DAY, variant] += 1
            self.total += 1

    def flush(self) -> None:
        """Write down what was counted since the last time; counts of repositories that are gone are dropped."""
        with self._lock:
            new, self._new = self._new, Counter()
        try:
            self._write(new)
        except SQLAlchemyError:
            with self._lock:
                self._new.update(new)  # for the next time
            raise

    def _write(self, new: Mapping[tuple[int, int, str], int]) -> None:
        numbers = sorted({repo for repo, _, _ in new})
        if not new:
            return
        with self._database.write() as connection:
            there: set[int] = set()
            for some in batches(numbers):
                query = select(repos.c.id).where(repos.c.id.in_(some))
                there.update(connection.scalars(query.with_for_update(read=True, key_share=True)))
            rows = [
                {"repo": repo, "day": day, "variant": variant, "count": count}
                for (repo, day, variant), count in sorted(new.items())
                if repo in there
            ]
            upsert(connection, downloads, rows, add=["count"])

    def by_day(self, repo: int, days: int) -> dict[date, int]:
        """The downloads of this repository on each of the last `days`, the present one at the end."""
        today = now() // _DAY
        query = select(downloads.c.day, func.sum(downloads.c.count)).where(
            downloads.c.repo == repo, downloads.c.day > today - days
        )
        with self._database.read() as connection:
            counts = {day: int(count) for day, count in connection.execute(query.group_by(downloads.c.day))}
        return {_EPOCH + timedelta(day): counts.get(day, 0) for day in range(today - days + 1, today + 1)}

    def by_variant(self, repo: int) -> dict[str, int]:
        """The downloads of each variant of this repository in the last 30 days, the most first."""
        total = func.sum(downloads.c.count)
        query = select(downloads.c.variant, total).where(downloads.c.repo == repo, _recent())
        with self._database.read() as connection:
            rows = connection.execute(query.group_by(downloads.c.variant).order_by(total.desc(), downloads.c.variant))
            return {variant: int(count) for variant, count in rows}

    def of_month(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """The downloads of each of these repositories in the last 30 days."""
        query = select(downloads.c.repo, func.sum(downloads.c.count)).where(downloads.c.repo.in_(numbers), _recent())
        with self._database.read() as connection:
            return Counter({repo: int(count) for repo, count in connection.execute(query.group_by(downloads.c.repo))})


def _recent() -> ColumnElement[bool]:
    return downloads.c.day > now() // _DAY - MONTH


def variant_at(path: str, index: Index | None) -> str | None:
    """The variant that somebody downloads who reads the file at `path`, or None where that does not count.

    Args:
        path: In the repository.
        index: That of the commit, if it has one.
    """
    for variant in index.variants if index else ():
        if path in {variant.wheel.path, f"{_BUILD}{variant.name}/{_read_by_all(variant)}"}:
            return variant.name
    folder, _, file = path.removeprefix(_BUILD).partition("/")
    foreign = index is None and path.startswith(_BUILD) and file.endswith(_LIBRARIES)
    return folder if foreign and len(folder) <= _LONGEST else None


def _read_by_all(variant: Variant) -> str:
    """The file of a variant's folder that stands for it: its first library, or of pure Python its first file."""
    paths = [entry.path for entry in variant.files]
    return next((path for path in paths if path.endswith(_LIBRARIES)), next(iter(paths), ""))
