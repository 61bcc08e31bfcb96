"""Bytes by their SHA-256, in any object store: streamed in and out, never whole in memory, never half there.

An upload is written under `incoming/`, hashed on the way, and moved to its place when all of it has arrived. The
table `blobs` is told before the move, so that garbage collection (`kernelworks_server.collect`) sees every blob that
exists or is about to; whether the bytes are there, only the object store says.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import obstore
from obstore.store import LocalStore, ObjectStore, from_url

from kernelworks.durable import sync
from kernelworks_server.database.engine import Database, now, upsert
from kernelworks_server.database.tables import blobs
from kernelworks_server.errors import Conflict, NotFound, TooLarge, Unprocessable

__all__ = ["Blobs", "Store", "open_store"]

_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_INCOMING = "incoming"
_ABANDONED = timedelta(days=1)
_COPIED_AT_ONCE = 5 << 30  # bytes; S3 copies no larger object
_PART = 8 << 20  # bytes of an upload to S3, which takes at most 10,000 of them
_PARTS_AT_ONCE = 2  # of each upload; so much of it is in memory


@dataclass(frozen=True)
class Store:
    """An object store, and the folder that it is, if it is one: folders must be told to write to the disk."""

    objects: ObjectStore
    folder: Path | None

    def persist(self, key: str) -> None:
        """Make sure that the object at `key` and the folders that lead to it survive a power cut."""
        if self.folder is not None:
            for path in (Path(key), *Path(key).parents):
                sync(self.folder / path)

    def size(self, key: str) -> int:
        """The size of an object in bytes.

        Raises:
            FileNotFoundError: There is none.
        """
        if self.folder is None:
            return obstore.head(self.objects, key)["size"]
        return (self.folder / key).stat().st_size

    def read(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """The bytes of an object from `start` up to `stop`, at most `_CHUNK` at a time from a folder."""
        if self.folder is None:
            result = obstore.get(self.objects, key, options={"range": (start, stop)})
            yield from map(bytes, result.stream(min_chunk_size=_CHUNK))
            return
        with (self.folder / key).open("rb") as file:  # twenty times as fast as a stream of the object store
            file.seek(start)
            while start < stop and (chunk := file.read(min(_CHUNK, stop - start))):
                start += len(chunk)
                yield chunk

    @contextmanager
    def writer(self, key: str) -> Iterator[Callable[[bytes], object]]:
        """What takes the bytes of a new object at `key`, which is there when the block ends."""
        if self.folder is None:
            with obstore.open_writer(self.objects, key, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE) as upload:
                yield upload.write
            return
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            yield file.write

    def move(self, source: str, target: str, size: int) -> None:
        """Let the object at `source` be at `target` instead, where it is whole or not at all; it has `size` bytes."""
        if self.folder is not None or size <= _COPIED_AT_ONCE:
            obstore.rename(self.objects, source, target)
            return
        with self.writer(target) as write:
            for chunk in self.read(source, 0, size):
                write(chunk)
        obstore.delete(self.objects, source)

    def is_empty(self) -> bool:
        """Whether there is no object at all."""
        return not any(obstore.list(self.objects, chunk_size=1))

    def sweep(self, prefix: str, since: datetime) -> int:
        """Delete what nothing was written to since then, directly below `prefix`; returns how much there was."""
        if self.folder is None:
            listed = (entry for batch in obstore.list(self.objects, f"{prefix}/") for entry in batch)
            stale = [entry["path"] for entry in listed if entry["last_modified"] < since]
            obstore.delete(self.objects, stale)
            return len(stale)
        swept = 0
        for path in (self.folder / prefix).glob("*"):  # the object store would not list what it has not finished
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < since.timestamp():
                    path.unlink()
                    swept += 1
        return swept


def open_store(url: str) -> Store:
    """The object store at `url`: `file:///...`, `s3://bucket/prefix`, or what else obstore knows."""
    store = from_url(url, mkdir=True) if url.startswith("file:") else from_url(url)
    return Store(store, Path(str(store.prefix)) if isinstance(store, LocalStore) else None)


class Blobs:
    """The bytes of one registry."""

    def __init__(self, store: Store, database: Database) -> None:
        self._store = store
        self._database = database

    def put(self, chunks: Iterable[bytes], *, expected: str | None, limit: int) -> tuple[str, int]:
        """Keep what `chunks` yield; returns (SHA-256 in hex, size in bytes), and by then it is on the disk.

        Bytes that are there already are not stored twice, but they are read and hashed all the same: to know a hash
        proves nothing.

        Raises:
            TooLarge: There are more than `limit` bytes; no more than that were taken.
            Unprocessable: The bytes do not have the SHA-256 `expected`.
            Conflict: Garbage collection without any grace period ran meanwhile.
        """
        try:
            with self._received(chunks, expected, limit) as (incoming, sha256, size):
                with self._database.write() as connection:
                    upsert(connection, blobs, [{"sha256": sha256, "size": size, "touched": now()}], update=["touched"])
                self._place(incoming, sha256, size)
        except FileNotFoundError as error:
            raise Conflict("the upload was collected meanwhile", hint="upload it again") from error
        return sha256, size

    def restore(self, sha256: str, chunks: Iterable[bytes], size: int) -> None:
        """Keep the bytes of a blob whose row is written later, while no registry runs on this store.

        Raises:
            TooLarge: There are more than `size` bytes.
            Unprocessable: They do not have this SHA-256.
        """
        with self._received(chunks, sha256, size) as (incoming, _, received):
            self._place(incoming, sha256, received)

    @contextmanager
    def _received(self, chunks: Iterable[bytes], expected: str | None, limit: int) -> Iterator[tuple[str, str, int]]:
        """(where the bytes are for the length of the block, their SHA-256, their size)."""
        incoming = f"{_INCOMING}/{secrets.token_hex(16)}"
        try:
            sha256, size = self._receive(incoming, chunks, limit)
            if expected is not None and sha256 != expected:
                raise Unprocessable(
                    f"the bytes have the SHA-256 `{sha256}`, not `{expected}`", expected=expected, got=sha256
                )
            yield incoming, sha256, size
        finally:
            self._delete(incoming)

    def _place(self, incoming: str, sha256: str, size: int) -> None:
        if self.size(sha256) != size:
            self._store.persist(incoming)
            self._store.move(incoming, _key(sha256), size)
        self._store.persist(_key(sha256))  # of a twin as well, whose own upload may not have come so far

    def _receive(self, key: str, chunks: Iterable[bytes], limit: int) -> tuple[str, int]:
        digest = hashlib.sha256()
        size = 0
        with self._store.writer(key) as write:
            for chunk in chunks:
                size += len(chunk)
                if size > limit:
                    raise TooLarge(f"more than {limit} bytes", limit=limit)
                digest.update(chunk)
                write(chunk)
        return digest.hexdigest(), size

    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `stop` (exclusive; None: the end) in chunks.

        Raises:
            NotFound: No such blob; before the first chunk is asked for.
        """
        size = self.size(sha256)
        if size is None:
            raise NotFound(f"no blob has the SHA-256 `{sha256}`", sha256=sha256)
        stop = size if stop is None else min(stop, size)
        if start >= stop:
            return iter(())
        return self._store.read(_key(sha256), start, stop)

    def size(self, sha256: str) -> int | None:
        """The size in bytes of this blob, or None where there is none."""
        if not _SHA256.fullmatch(sha256):
            return None
        try:
            return self._store.size(_key(sha256))
        except FileNotFoundError:
            return None

    def remove(self, sha256: str) -> None:
        """Delete this blob; who calls has made sure, in a transaction, that nobody has it."""
        self._delete(_key(sha256))

    def sweep(self) -> int:
        """Delete what killed uploads left behind: nothing was added to it for a day; returns how many there were."""
        return self._store.sweep(_INCOMING, datetime.now(timezone.utc) - _ABANDONED)

    def _delete(self, key: str) -> None:
        with suppress(FileNotFoundError):
            obstore.delete(self._store.objects, key)


def _key(sha256: str) -> str:
    return f"sha256/{sha256[:2]}/{sha256}"
