"""The shard format: which chunks of which xorbs make up each uploaded file (draft-denis-xet, "Shard Format")."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from kernelworks_server.errors import BadRequest

__all__ = ["File", "Segment", "hash_text", "read_files"]

_RECORD = 48
_MAGIC = bytes.fromhex("5569 6745 6a7b 8157 83a5 bdd9 5ccd d14a a9")
_MAGIC_AT = 15
_VERSION = 2
_MAX_SEGMENTS = 100_000  # of one file; a client merges adjacent chunks
_WITH_VERIFICATION = 1 << 31
_WITH_SHA256 = 1 << 30
_BOOKEND = b"\xff" * 32


@dataclass(frozen=True)
class Segment:
    """Chunks `start` (inclusive) to `stop` (exclusive) of a xorb, `size` plain bytes together."""

    xorb: str
    start: int
    stop: int
    size: int


@dataclass(frozen=True)
class File:
    """One file of a shard: its SHA-256 and the segments that make it up, in order."""

    sha256: str
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(segment.size for segment in self.segments)


def hash_text(raw: bytes) -> str:
    """A Xet hash as text: each group of eight bytes is a little-endian number, written in hex."""
    return "".join(f"{number:016x}" for number in struct.unpack("<4Q", raw))


def read_files(shard: IO[bytes]) -> Iterator[File]:
    """The files that a shard describes; its list of new xorbs is not needed and not read.

    Raises:
        BadRequest: Not a shard, cut short, or a file without its SHA-256.
    """
    head = _record(shard)
    if head[_MAGIC_AT:32] != _MAGIC or struct.unpack_from("<Q", head, 32)[0] != _VERSION:
        raise BadRequest(f"the body is not a shard of version {_VERSION}")
    while (record := _record(shard))[:32] != _BOOKEND:
        flags, count = struct.unpack_from("<II", record, 32)
        if count > _MAX_SEGMENTS:
            raise BadRequest(f"file `{hash_text(record[:32])}` has more than {_MAX_SEGMENTS} segments")
        segments = tuple(_segment(_record(shard)) for _ in range(count))
        if flags & _WITH_VERIFICATION:
            for _ in range(count):
                _record(shard)
        if not flags & _WITH_SHA256:
            raise BadRequest(f"the shard gives no SHA-256 for file `{hash_text(record[:32])}`")
        yield File(hash_text(_record(shard)[:32]), segments)


def _segment(record: bytes) -> Segment:
    _, size, start, stop = struct.unpack_from("<4I", record, 32)
    if start >= stop or size == 0:
        raise BadRequest("a segment of the shard is empty")
    return Segment(hash_text(record[:32]), start, stop, size)


def _record(shard: IO[bytes]) -> bytes:
    record = shard.read(_RECORD)
    if len(record) != _RECORD:
        raise BadRequest("the shard is cut short")
    return record
