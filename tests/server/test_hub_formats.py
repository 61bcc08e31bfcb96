"""What the Hub layer reads from strangers: xorbs, shards, commit lines, ranges. Pure functions, hostile bytes."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks.errors import KernelworksError, RepositoryError
from kernelworks_server.config import Limits
from kernelworks_server.errors import BadRequest, TooLarge
from kernelworks_server.hub.commits import InlineFile, LargeFile, read_commit
from kernelworks_server.hub.content import Span, UnsatisfiableError, span_of
from kernelworks_server.hub.shard import File, Segment, hash_text, read_files
from kernelworks_server.hub.xorb import scan, unpack
from kernelworks_server.records import DeleteFile, DeleteFolder


def grouped(data: bytes) -> bytes:
    return data[0::4] + data[1::4] + data[2::4] + data[3::4]


PACKERS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: lz4.frame.compress,
    2: lambda data: lz4.frame.compress(grouped(data)),
}


def chunk(data: bytes, scheme: int, *, announced: int | None = None) -> bytes:
    packed = PACKERS[scheme](data)
    size = len(data) if announced is None else announced
    return b"\0" + len(packed).to_bytes(3, "little") + bytes([scheme]) + size.to_bytes(3, "little") + packed


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from(sorted(PACKERS))), min_size=1, max_size=8),
    st.data(),
)
def test_any_run_of_chunks_of_any_scheme_comes_back_as_it_went_in(
    parts: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    xorb = b"".join(chunk(*part) for part in parts)
    layout = scan(xorb[at : at + 7] for at in range(0, len(xorb), 7))
    start = data.draw(st.integers(0, len(parts) - 1))
    stop = data.draw(st.integers(start + 1, len(parts)))

    chunks = layout.chunks(start, stop)
    plain = b"".join(unpack([xorb[chunks[0].offset : chunks[-1].end]], chunks))

    assert plain == b"".join(part for part, _ in parts[start:stop])


def test_the_footer_of_a_xorb_is_not_taken_for_a_chunk() -> None:
    assert len(scan([chunk(b"abc", 0), b"XETBLOB\1" + bytes(99)])) == 1


@pytest.mark.parametrize(
    "xorb",
    [
        b"",
        b"XETBLOB\1",
        chunk(b"abc", 0)[:-1],
        chunk(b"abc", 0) + b"\0\0",
        b"\1" + chunk(b"abc", 0)[1:],
        chunk(b"abc", 0, announced=0),
        chunk(b"abc", 1, announced=(128 << 10) + 1),
        b"\0\1\0\0\3\1\0\0x",
        chunk(b"a", 0) * 8193,
    ],
    ids=["empty", "only a footer", "cut", "tail", "version", "no bytes", "long", "scheme", "many"],
)
def test_bytes_that_are_no_xorb_are_refused(xorb: bytes) -> None:
    with pytest.raises(BadRequest):
        scan([xorb])


@pytest.mark.parametrize("scheme", [1, 2])
def test_a_chunk_that_unpacks_to_more_than_it_announces_is_refused(scheme: int) -> None:
    xorb = chunk(bytes(16 << 20), scheme, announced=1000)

    with pytest.raises(BadRequest, match="does not unpack"):
        list(unpack([xorb[8:]], scan([xorb]).chunks(0, 1)))


def test_a_chunk_that_is_no_lz4_frame_is_refused() -> None:
    xorb = b"\0\x20\0\0\1\x20\0\0" + b"no frame at all " * 2

    with pytest.raises(BadRequest, match="LZ4"):
        list(unpack([xorb[8:]], scan([xorb]).chunks(0, 1)))


def record(raw: bytes, *numbers: int) -> bytes:
    return (raw + struct.pack(f"<{len(numbers)}I", *numbers)).ljust(48, b"\0")


HEAD = b"HFRepoMetaData\0" + bytes.fromhex("556967456a7b815783a5bdd95ccdd14aa9") + struct.pack("<QQ", 2, 0)
END = b"\xff" * 32 + bytes(16)
XORB, SHA256 = bytes(range(32)), bytes(range(32, 64))
SEGMENT = record(XORB, 0, 10, 0, 1)


def test_a_shard_names_its_files_by_the_xorbs_that_make_them_up() -> None:
    file = record(b"f" * 32, 0xC0000000, 2) + SEGMENT + record(XORB, 0, 5, 3, 4) + bytes(96) + record(SHA256)

    files = list(read_files(io.BytesIO(HEAD + file + END + b"xorbs follow")))

    xorb = "07060504030201000f0e0d0c0b0a090817161514131211101f1e1d1c1b1a1918"  # the example of draft-denis-xet
    assert files == [File(hash_text(SHA256), (Segment(xorb, 0, 1, 10), Segment(xorb, 3, 4, 5)))]
    assert files[0].size == 15


@pytest.mark.parametrize(
    "shard",
    [
        b"",
        b"x" * 48,
        HEAD,
        HEAD[:-16] + struct.pack("<QQ", 3, 0) + END,
        HEAD + record(b"f" * 32, 0x40000000, 1) + SEGMENT,
        HEAD + record(b"f" * 32, 0, 1) + SEGMENT + END,
        HEAD + record(b"f" * 32, 0x40000000, 1) + record(XORB, 0, 10, 1, 1) + record(SHA256) + END,
        HEAD + record(b"f" * 32, 0x40000000, 4_000_000_000) + SEGMENT,
    ],
    ids=["empty", "magic", "no end", "version", "cut", "no SHA-256", "empty segment", "many segments"],
)
def test_bytes_that_are_no_shard_are_refused(shard: bytes) -> None:
    with pytest.raises(BadRequest):
        list(read_files(io.BytesIO(shard)))


def lines(*documents: object) -> io.BytesIO:
    return io.BytesIO(b"".join(json.dumps(document).encode() + b"\n" for document in documents))


HEADER = {"key": "header", "value": {"summary": "add", "description": "two\nlines", "parentCommit": "c" * 40}}
OID = "a" * 64


def operation(key: str, **value: object) -> dict[str, object]:
    return {"key": key, "value": value}


def inline(path: str, content: str = "eA==") -> dict[str, object]:
    return operation("file", path=path, content=content, encoding="base64")


def test_a_commit_is_read_line_by_line() -> None:
    header, changes = read_commit(
        lines(
            HEADER,
            inline("a/b.py"),
            operation("lfsFile", path="x.so", algo="sha256", oid=OID, size=7),
            operation("lfsFile", path="copy.so", algo="sha256", oid=OID),
            operation("deletedFile", path="old"),
            operation("deletedFolder", path="older/"),
        ),
        Limits(),
    )

    assert (header.summary, header.description, header.parent) == ("add", "two\nlines", "c" * 40)
    assert list(changes) == [
        InlineFile("a/b.py", b"x"),
        LargeFile("x.so", OID, 7),
        LargeFile("copy.so", OID, None),
        DeleteFile("old"),
        DeleteFolder("older"),
    ]


@pytest.mark.parametrize(
    "path", ["../a", "/a", "a//b", "a/../b", "./a", "a//", "a\\b", "", "C:a", "a\0b", "a\nb", "x" * 300]
)
@pytest.mark.parametrize("key", ["file", "lfsFile", "deletedFile", "deletedFolder"])
def test_a_path_that_leaves_the_repository_is_refused_wherever_it_stands(key: str, path: str) -> None:
    line = operation(key, path=path, content="eA==", encoding="base64", algo="sha256", oid=OID, size=1)

    with pytest.raises(RepositoryError):
        list(read_commit(lines(HEADER, line), Limits())[1])


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (lines(), BadRequest),
        (lines(inline("a")), BadRequest),
        (lines(HEADER, inline("a"), inline("a")), BadRequest),
        (lines(HEADER, operation("symlink", path="a")), BadRequest),
        (lines(HEADER, operation("file", path="a", content="eA=", encoding="base64")), RepositoryError),
        (lines(HEADER, operation("file", path="a", content="x", encoding="utf-8")), RepositoryError),
        (lines(HEADER, operation("lfsFile", path="a", algo="sha1", oid=OID, size=1)), RepositoryError),
        (lines(HEADER, operation("lfsFile", path="a", algo="sha256", oid=OID[:40], size=1)), RepositoryError),
        (lines(HEADER, operation("lfsFile", path="a", algo="sha256", oid=OID, size=-1)), RepositoryError),
        (lines(HEADER, 7), RepositoryError),
        (io.BytesIO(json.dumps(HEADER).encode() + b"\n" + b"[" * 60_000), RepositoryError),
        (io.BytesIO(b'{"key": "header", "key": "file", "value": {}}'), RepositoryError),
        (io.BytesIO(b"\xff\xfe"), RepositoryError),
        (lines(HEADER, *[operation("deletedFile", path=f"{n}") for n in range(12)]), TooLarge),
        (lines(HEADER, inline("a", "eHh4" * 100)), TooLarge),
        (lines(HEADER, operation("deletedFile", path="x" * 100_000)), TooLarge),
    ],
)
def test_lines_that_are_no_commit_are_refused(body: io.BytesIO, refusal: type[KernelworksError]) -> None:
    limits = Limits(operations=10, regular_file=200)

    with pytest.raises(refusal):
        list(read_commit(body, limits)[1])


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, Span(0, 10, partial=False)),
        ("bytes=0-3", Span(0, 4, partial=True)),
        ("bytes=4-", Span(4, 10, partial=True)),
        ("bytes=-3", Span(7, 10, partial=True)),
        ("bytes=-30", Span(0, 10, partial=True)),
        ("bytes=8-99", Span(8, 10, partial=True)),
        ("bytes=0-1,3-4", Span(0, 10, partial=False)),
        ("bytes=5-2", Span(0, 10, partial=False)),
        ("bytes=-", Span(0, 10, partial=False)),
        ("lines=1-2", Span(0, 10, partial=False)),
        (f"bytes={'9' * 5000}-", Span(0, 10, partial=False)),
    ],
)
def test_a_range_asks_for_bytes_as_the_rfc_says(header: str | None, span: Span) -> None:
    assert span_of(header, 10) == span


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_range_behind_the_end_cannot_be_satisfied(header: str) -> None:
    with pytest.raises(UnsatisfiableError):
        span_of(header, 10)
