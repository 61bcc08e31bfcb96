"""A whole registry into an archive, while it is served; and out of one, into an empty registry of any kind.

The rows of every table go along, but for what only a client knows that is uploading: files that wait for their commit,
and xorbs. The registry's secret does not: what it signs is good for hours, and with another one no client of Xet
refers to what it sent before.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from sqlalchemy import Connection, LargeBinary, MetaData, Table, false, func, insert, inspect, select, true, update

from kernelworks._version import __version__
from kernelworks.errors import VerifyError
from kernelworks.model.digest import canonical_json
from kernelworks_server import events
from kernelworks_server.archive import Archive, Contents, Header, Row, Writer, create
from kernelworks_server.blobs import Blobs, Store, open_store
from kernelworks_server.config import Config
from kernelworks_server.database import schema
from kernelworks_server.database.engine import Database, moment, now
from kernelworks_server.database.tables import blobs, holdings, metadata, xorbs
from kernelworks_server.errors import Conflict

__all__ = ["check", "export", "restore"]

_AT_ONCE = 1_000  # rows
_COMMITTED = blobs.c.sha256.in_(select(holdings.c.sha256).where(holdings.c.committed))
_KEPT = {blobs: _COMMITTED, holdings: holdings.c.committed, xorbs: false()}
"""Which rows of a table go along, where it is not all of them."""


@dataclass(frozen=True)
class _Spool:
    file: IO[bytes]
    rows: int
    sha256: str


def export(database: Database, store: Blobs, path: Path) -> Contents:
    """Write the registry as it is at one moment to an archive at `path`; one that was there is replaced.

    Files of repositories that are deleted meanwhile stay as long as an upload may wait for its commit.

    Raises:
        VerifyError: The store lacks files, or has other bytes; there is no archive.
    """
    with database.write() as connection:
        connection.execute(update(blobs).where(_COMMITTED).values(touched=now()))  # as an upload does
        events.record(connection, None, "registry.export", events.REGISTRY)
    with ExitStack() as files, create(path) as archive:
        with database.read() as connection:
            revision = str(schema.current(connection))
            spools = {
                table.name: _spool(connection, table, files.enter_context(TemporaryFile(dir=path.parent)))
                for table in metadata.tables.values()
            }
        digests = {name: spool.sha256 for name, spool in spools.items()}
        archive.header(Header(revision, moment(now()).isoformat(), __version__, digests))
        for name, spool in sorted(spools.items()):
            archive.table(name, spool.file)
        sizes = _copy_blobs(archive, store, spools[blobs.name].file)
    return Contents(sum(spool.rows for spool in spools.values()), len(sizes), sum(sizes))


def _spool(connection: Connection, table: Table, file: IO[bytes]) -> _Spool:
    """The rows of `table`, in `file`."""
    query = select(table).where(_KEPT.get(table, true())).order_by(*table.primary_key)
    digest = hashlib.sha256()
    count = 0
    for row in connection.execute(query, execution_options={"yield_per": _AT_ONCE}).mappings():
        line = canonical_json({name: _plain(value) for name, value in row.items()})
        file.write(line)
        digest.update(line)
        count += 1
    return _Spool(file, count, digest.hexdigest())


def _copy_blobs(archive: Writer, store: Blobs, rows: IO[bytes]) -> list[int]:
    sizes = []
    faults = []
    rows.seek(0)
    for row in map(json.loads, rows):
        sha256, size = row["sha256"], row["size"]
        if store.size(sha256) != size:
            faults.append(f"blob `{sha256}` is not there, or has not {size} bytes")
            continue
        try:
            archive.blob(sha256, size, store.read(sha256))
        except VerifyError as error:
            faults.append(error.message)
        sizes.append(size)
    if faults:
        raise VerifyError(
            f"the registry's store is damaged: {'; '.join(faults)}",
            hint="upload these files again, or delete the repositories that have them",
            faults=faults,
        )
    return sizes


def check(path: Path) -> Contents:
    """How much the archive at `path` holds, every byte of it proved.

    Raises:
        VerifyError: It is damaged; says all that is.
    """
    return Archive(path).check()


def restore(config: Config, path: Path) -> Contents:
    """Read an archive into the registry that `config` describes; there is nothing of it, or all of it.

    Raises:
        Conflict: The database has tables already, or the store objects.
        HostError: A later version of the program made it.
        VerifyError: It is damaged; nothing was written.
    """
    store = open_store(config.store)
    with closing(Database(config.database)) as database:
        with database.read() as connection:
            _require_empty(connection, store)
        contents = check(path)
        archive = Archive(path)
        keep = Blobs(store, database)
        for sha256, size, chunks in archive.blobs():
            keep.restore(sha256, chunks, size)
        with database.write() as connection:
            _require_empty(connection)  # still: a server may have been started
            schema.migrate(connection, archive.header.schema)
            _fill(connection, archive)
            schema.migrate(connection)
            events.record(connection, None, "registry.import", events.REGISTRY, made=archive.header.made)
    return contents


def _require_empty(connection: Connection, store: Store | None = None) -> None:
    if inspect(connection).get_table_names() or (store is not None and not store.is_empty()):
        raise Conflict(
            "there is a registry here already, or the rest of one",
            hint="name a new folder, or an empty database and an empty store",
        )


def _fill(connection: Connection, archive: Archive) -> None:
    """Write the rows of every table, whose columns are those of the archive's revision."""
    there = MetaData()
    there.reflect(connection)
    for table in there.sorted_tables:
        if table.name in archive.header.tables:
            for some in _batches(archive.rows(table.name)):
                connection.execute(insert(table), [_typed(table, row) for row in some])
            _continue_numbers(connection, table)


def _continue_numbers(connection: Connection, table: Table) -> None:
    """Let PostgreSQL number new rows behind those that brought their own; SQLite does."""
    column = table.autoincrement_column
    if column is not None and connection.dialect.name == "postgresql":
        last = select(func.max(column)).scalar_subquery()
        connection.execute(select(func.setval(func.pg_get_serial_sequence(table.name, column.name), last)))


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _typed(table: Table, row: Row) -> Row:
    return {
        name: base64.b64decode(value) if isinstance(table.c[name].type, LargeBinary) else value
        for name, value in row.items()
    }


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rest = iter(rows)
    while some := list(islice(rest, _AT_ONCE)):
        yield some
