"""An archive: a whole registry in one tar file, every part of it proved by a SHA-256.

`archive.json` says what it is, and the SHA-256 of each table's rows; `tables/NAME.jsonl` holds them, a JSON object a
line, the tables by name; `blobs/SHA256` are the files, in the order of the table `blobs`. Names are short and known
beforehand, so each part is one header of 512 bytes and its data (POSIX ustar, sizes over 8 GiB as GNU tar has them).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from kernelworks.durable import sync
from kernelworks.errors import UsageError, VerifyError
from kernelworks.model.digest import canonical_json

__all__ = ["Archive", "Contents", "Header", "Row", "Writer", "create"]

Row = dict[str, Any]

_FORMAT = 1
_HEADER = "archive.json"
_BLOBS = "blobs"
_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 20
_LONGEST_HEADER = 1 << 20


@dataclass(frozen=True)
class Header:
    """What an archive is.

    Attributes:
        schema: The revision that the tables were at.
        made: When, in ISO 8601.
        program: The version of the program that made it.
        tables: The SHA-256 of the rows of each table.
    """

    schema: str
    made: str
    program: str
    tables: dict[str, str]


@dataclass(frozen=True)
class Contents:
    """How much an archive holds: rows of tables, files, and the bytes of the files."""

    rows: int
    blobs: int
    bytes: int


class Writer:
    """Adds the parts of an archive, in their order."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def header(self, header: Header) -> None:
        """Add the header."""
        data = canonical_json({"format": _FORMAT, **asdict(header)})
        self._add(_HEADER, len(data), [data])

    def table(self, name: str, lines: IO[bytes]) -> None:
        """Add the rows of a table: all of `lines`."""
        size = lines.seek(0, os.SEEK_END)
        lines.seek(0)
        self._add(_table(name), size, lines)

    def blob(self, sha256: str, size: int, chunks: Iterable[bytes]) -> None:
        """Add a file of `size` bytes.

        Raises:
            VerifyError: The bytes are more or fewer, or do not have this SHA-256; the archive is spoilt.
        """
        self._add(f"{_BLOBS}/{sha256}", size, _proved(chunks, sha256, f"blob `{sha256}`"))

    def end(self) -> None:
        """Add what says that nothing follows."""
        self._file.write(bytes(2 * _BLOCK))

    def _add(self, name: str, size: int, chunks: Iterable[bytes]) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        self._file.write(info.tobuf(tarfile.GNU_FORMAT))
        written = sum(map(self._file.write, chunks))
        if written != size:
            raise VerifyError(f"`{name}` has {written} bytes, not {size}")
        self._file.write(bytes(-size % _BLOCK))


@contextmanager
def create(path: Path) -> Iterator[Writer]:
    """A new archive, for its owner only; it is at `path` when the block ends, whole, or not at all."""
    incoming = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            writer = Writer(file)
            yield writer
            writer.end()
            file.flush()
            os.fsync(file.fileno())
        incoming.replace(path)
    finally:
        incoming.unlink(missing_ok=True)
    sync(path.parent)


@dataclass(frozen=True)
class _Part:
    start: int
    size: int


class Archive:
    """The archive at `path`; its files are read once, in their order.

    Raises:
        UsageError: A later version of the program made it.
        VerifyError: It is no archive, or damaged where it begins.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0  # of the part that was found last
        self.header = self._read_header()
        self._tables = {name: self._next(_table(name)) for name in sorted(self.header.tables)}

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a table.

        Raises:
            VerifyError: They are not those that were archived; behind the last of them, where that is not seen before.
        """
        try:
            lines = self._pieces(self._tables[table], lines=True)
            yield from map(json.loads, _proved(lines, self.header.tables[table], f"table `{table}`"))
        except ValueError as error:
            raise VerifyError(f"table `{table}` is not what was archived") from error

    def blobs(self) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """The (SHA-256, size, bytes) of every file; to take the bytes raises VerifyError where they are others.

        Raises:
            VerifyError: A file is missing.
        """
        for row in self.rows(_BLOBS):
            name = f"{_BLOBS}/{row['sha256']}"
            part = self._next(name)
            if part.size != row["size"]:
                raise VerifyError(f"`{name}` has {part.size} bytes, not {row['size']}")
            yield row["sha256"], part.size, _proved(self._pieces(part), row["sha256"], f"blob `{row['sha256']}`")

    def check(self) -> Contents:
        """How much it holds, when every byte is proved; with that its files have been read.

        Raises:
            VerifyError: It is damaged; says all that is.
        """
        faults: list[str] = []
        rows = sum(_count(self.rows(table), faults) for table in self._tables)
        sizes = []
        with _noted(faults):
            for _, size, chunks in self.blobs() if not faults else ():
                _count(chunks, faults)
                sizes.append(size)
        if faults:
            words = "; ".join(faults)
            raise VerifyError(f"the archive `{self._path}` is damaged: {words}", hint="take another one", faults=faults)
        return Contents(rows, len(sizes), sum(sizes))

    def _read_header(self) -> Header:
        part = self._next(_HEADER)
        if part.size > _LONGEST_HEADER:
            raise VerifyError(f"`{_HEADER}` of `{self._path}` has {part.size} bytes")
        with suppress(ValueError, TypeError, AttributeError, KeyError):
            document = json.loads(b"".join(self._pieces(part)))
            if document.pop("format") == _FORMAT:
                return Header(**document)
            raise UsageError(f"this program does not know the format of `{self._path}`", hint="upgrade `kernelworks`")
        raise VerifyError(f"`{_HEADER}` of `{self._path}` says nothing of an archive")

    def _next(self, name: str) -> _Part:
        with self._path.open("rb") as file:
            file.seek(self._end)
            try:
                info = tarfile.TarInfo.frombuf(file.read(_BLOCK), "ascii", "replace")
            except tarfile.TarError as error:
                raise VerifyError(f"`{self._path}` has no `{name}`: it is no archive, or cut short") from error
            if info.name != name or info.size < 0:
                raise VerifyError(f"`{self._path}` has `{info.name}` where `{name}` belongs")
            part = _Part(file.tell(), info.size)
        self._end = part.start + part.size + -part.size % _BLOCK
        return part

    def _pieces(self, part: _Part, *, lines: bool = False) -> Iterator[bytes]:
        """The bytes of a part in lines or in chunks; fewer where the file is cut short."""
        rest = part.size
        with self._path.open("rb") as file:
            file.seek(part.start)
            read = file.readline if lines else file.read
            while rest and (piece := read(rest if lines else min(rest, _CHUNK))):
                rest -= len(piece)
                yield piece


def _table(name: str) -> str:
    return f"tables/{name}.jsonl"


def _proved(pieces: Iterable[bytes], sha256: str, what: str) -> Iterator[bytes]:
    """The pieces, and an error behind the last of them where they do not have this SHA-256 together."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    if digest.hexdigest() != sha256:
        raise VerifyError(f"{what} is not what was archived", expected=sha256, got=digest.hexdigest())


def _count(pieces: Iterable[Any], faults: list[str]) -> int:
    count = 0
    with _noted(faults):
        for _ in pieces:
            count += 1
    return count


@contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    try:
        yield
    except VerifyError as fault:
        faults.append(fault.message)
