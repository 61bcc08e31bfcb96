"""The xorb format: a run of compressed chunks, as Xet clients upload it (draft-denis-xet, section "Xorb Format").

A xorb is read as a stream: `scan` looks at the chunk headers only, `unpack` gives the bytes of some chunks.
Neither trusts a length before it is compared with the limits of the format.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import lz4.frame

from kernelworks_server.errors import BadRequest

__all__ = ["Chunk", "Layout", "Source", "scan", "unpack"]

_MAX_CHUNKS = 8192
_MAX_CHUNK = 128 << 10  # bytes, packed or unpacked
_HEADER = struct.Struct("<I4s")  # version (1 byte) and packed size (3), scheme (1) and unpacked size (3)
_FOOTER = b"XETBLOB"
_STORED, _LZ4, _GROUPED_LZ4 = range(3)


@dataclass(frozen=True)
class Chunk:
    """Where one chunk lies in its xorb, and how it is packed; offsets and sizes in bytes."""

    offset: int
    packed: int
    unpacked: int
    scheme: int

    @property
    def end(self) -> int:
        """The first byte after the chunk."""
        return self.offset + self.packed


class Layout:
    """The chunks of one xorb, in eight bytes each: those of all xorbs that an upload comes back to are kept in mind."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._ends = array("I", [0])
        self._forms = array("I")  # unpacked size and scheme
        for chunk in chunks:
            self._ends.append(chunk.end)
            self._forms.append(chunk.unpacked << 8 | chunk.scheme)

    def __len__(self) -> int:
        return len(self._forms)

    def chunks(self, start: int, stop: int) -> list[Chunk]:
        """Those from `start` up to `stop` (exclusive), as far as there are any."""
        return [
            Chunk(before + _HEADER.size, end - before - _HEADER.size, form >> 8, form & 0xFF)
            for before, end, form in zip(
                self._ends[start:stop], self._ends[start + 1 : stop + 1], self._forms[start:stop], strict=False
            )
        ]


class Source:
    """A stream of byte blocks, read in pieces of a wanted size."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._buffer = bytearray()

    def take(self, size: int) -> bytes:
        """The next `size` bytes, fewer only at the end of the stream."""
        while len(self._buffer) < size and (block := next(self._blocks, None)) is not None:
            self._buffer += block
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def scan(blocks: Iterable[bytes]) -> Layout:
    """The chunks of a serialised xorb, with or without its footer.

    Raises:
        BadRequest: The bytes are no xorb: a header with an unknown version or scheme, a size outside the format's
            limits, a chunk cut short, or no chunk at all.
    """
    return Layout(_chunks(Source(blocks)))


def _chunks(source: Source) -> Iterator[Chunk]:
    count = offset = 0
    while len(head := source.take(_HEADER.size)) == _HEADER.size and not head.startswith(_FOOTER):
        first, second = _HEADER.unpack(head)
        chunk = Chunk(offset + _HEADER.size, first >> 8, int.from_bytes(second[1:], "little"), second[0])
        fits = 0 < chunk.packed <= _MAX_CHUNK and 0 < chunk.unpacked <= _MAX_CHUNK
        if first & 0xFF or chunk.scheme > _GROUPED_LZ4 or not fits or count == _MAX_CHUNKS:
            raise BadRequest(f"chunk {count} of the xorb has a header that the format does not allow")
        if len(source.take(chunk.packed)) != chunk.packed:
            raise BadRequest(f"chunk {count} of the xorb is cut short")
        yield chunk
        count, offset = count + 1, chunk.end
    if not count or 0 < len(head) < _HEADER.size:
        raise BadRequest("the xorb holds no chunk, or bytes that are no chunk")


def unpack(blocks: Iterable[bytes], chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """The plain bytes of adjacent `chunks`, whose bytes in the xorb (headers between them included) are `blocks`.

    Raises:
        BadRequest: A chunk does not unpack to the size that its header announces.
    """
    source = Source(blocks)
    position = None
    for chunk in chunks:
        source.take(0 if position is None else chunk.offset - position)
        position = chunk.end
        yield _plain(source.take(chunk.packed), chunk)


def _plain(packed: bytes, chunk: Chunk) -> bytes:
    plain = packed if chunk.scheme == _STORED else _inflate(packed, chunk.unpacked)
    if len(plain) != chunk.unpacked:
        raise BadRequest("a chunk of the xorb does not unpack to the size in its header")
    return _ungrouped(plain) if chunk.scheme == _GROUPED_LZ4 else plain


def _inflate(packed: bytes, size: int) -> bytes:
    """At most `size` + 1 bytes of one LZ4 frame: a bomb is cut off, and seen by its length."""
    try:
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(packed, max_length=size + 1))
    except RuntimeError as error:
        raise BadRequest("a chunk of the xorb is not a valid LZ4 frame") from error


def _ungrouped(grouped: bytes) -> bytes:
    """Bytes that were sorted by their position in a group of four, in their own order again."""
    plain = bytearray(len(grouped))
    start = 0
    for lane in range(4):
        size = len(range(lane, len(grouped), 4))
        plain[lane::4] = grouped[start : start + size]
        start += size
    return bytes(plain)
