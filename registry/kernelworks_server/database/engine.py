"""Connections to the database: reading, and writing in transactions that one at a time holds on SQLite."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError

from kernelworks.errors import HostError, UsageError
from kernelworks_server.database.schema import migrate
from kernelworks_server.errors import BadRequest

__all__ = ["Database", "moment", "now", "upsert"]

_BUSY_SECONDS = 30
_CONNECTIONS = 48  # more than the threads that an event loop lends, so that none waits for a connection
_SQLITE_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",  # NORMAL may lose the last commits to a power cut, and they were acknowledged
    "foreign_keys = ON",
)


def now() -> int:
    """The present time in microseconds since the epoch, UTC: the unit of every time in the tables."""
    return time.time_ns() // 1_000


def moment(microseconds: int) -> datetime:
    """The time that `now` gave as a number."""
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)


def upsert(
    connection: Connection,
    table: Table,
    rows: list[dict[str, Any]],
    *,
    update: Sequence[str] = (),
    add: Sequence[str] = (),
) -> None:
    """Insert `rows`; of a row that is there already, by its primary key, only the columns named here change.

    Args:
        connection: In a transaction that writes.
        table: Where.
        rows: All with the same columns.
        update: Columns that get the new value.
        add: Columns that the new value is added to.
    """
    if not rows:
        return
    dialect: Any = sqlite if connection.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table)
    if update or add:
        changed = {name: statement.excluded[name] for name in update}
        changed |= {name: table.c[name] + statement.excluded[name] for name in add}
        statement = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed)
    else:
        statement = statement.on_conflict_do_nothing()
    connection.execute(statement, rows)


class Database:
    """One database, by its SQLAlchemy URL."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self._sqlite = parsed.get_backend_name() == "sqlite"
        self._engine = _sqlite_engine(parsed) if self._sqlite else _postgres_engine(parsed)
        # SQLite has one writer at a time, and lets the others poll; threads that queue here are served without delay.
        self._writers: AbstractContextManager[Any] = threading.Lock() if self._sqlite else nullcontext()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection whose queries see one state.

        Raises:
            BadRequest: A value is no text that the database can hold.
        """
        options: dict[str, Any] = {} if self._sqlite else {"isolation_level": "REPEATABLE READ"}
        with _text_only(), self._engine.connect().execution_options(**options) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: after the block it is on the disk, after an exception it never was; raises as `read` does."""
        with (
            self._writers,
            _text_only(),
            self._engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    def migrate(self) -> None:
        """Bring the tables to the latest revision; raises as `schema.migrate` does."""
        with self.write() as connection:
            migrate(connection)

    def ping(self) -> None:
        """Nothing, if the database answers; whatever its driver raises otherwise."""
        with self.read() as connection:
            connection.exec_driver_sql("SELECT 1")

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


@contextmanager
def _text_only() -> Iterator[None]:
    """Half a surrogate pair, or a NUL in PostgreSQL, comes from a request and is its fault."""
    try:
        yield
    except (DataError, UnicodeEncodeError) as error:
        raise BadRequest("the request holds characters that are no text") from error


def _postgres_engine(url: URL) -> Engine:
    if url.get_backend_name() != "postgresql":
        raise UsageError(f"`{url.drivername}` is no database for a registry (known: sqlite, postgresql)")
    try:
        url = url.set(drivername="postgresql+psycopg")
        return create_engine(url, pool_size=_CONNECTIONS, pool_pre_ping=True)  # it may be started anew meanwhile
    except ModuleNotFoundError as error:
        raise HostError("`psycopg` is missing", hint="pip install 'kernelworks[server,postgres]'") from error


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_size=_CONNECTIONS,
        connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing on its own; `_begin` does
        for pragma in _SQLITE_PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads first and writes later could fail for another writer; this one waits instead.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
