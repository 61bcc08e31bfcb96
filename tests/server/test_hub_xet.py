"""What it costs to put the files of a shard together: a shard is small, and may name the same xorbs very often."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks_server.hub import xet
from kernelworks_server.hub.xorb import Layout, scan

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.server

XORBS = {f"{number:064x}": b"\0\1\0\0\0\1\0\0" + bytes([number]) for number in range(20)}  # of one byte each


def shard(content: bytes, xorbs: Iterable[str]) -> bytes:
    """A shard of one file, whose segments are the first chunks of `xorbs`."""

    def raw(text: str) -> bytes:
        return b"".join(int(text[at : at + 16], 16).to_bytes(8, "little") for at in range(0, 64, 16))

    def numbers(*values: int) -> bytes:
        return b"".join(value.to_bytes(4, "little") for value in values)

    segments = [raw(xorb) + numbers(0, 1, 0, 1) for xorb in xorbs]
    head = b"HFRepoMetaData\0" + bytes.fromhex("556967456a7b815783a5bdd95ccdd14aa9") + numbers(2, 0, 0, 0)
    file = b"f" * 32 + numbers(1 << 30, len(segments), 0, 0)
    end = hashlib.sha256(content).digest()
    sha256 = raw(end.hex()) + bytes(16)
    return b"".join([head, file, *segments, sha256, b"\xff" * 32 + bytes(16)])


@pytest.fixture
def address(server: Server) -> tuple[str, str]:
    """(address, token) for uploads to a repository that was sent the `XORBS`."""
    token = server.user("ann")
    server.ask("POST", "/api/repos/create", {"name": "a", "type": "kernel"}, token=token)
    told = server.ask("GET", "/api/kernels/ann/a/xet-write-token/main", token=token).json()
    url, access = told["casUrl"], told["accessToken"]
    for xorb, data in XORBS.items():
        assert server.ask("POST", f"{url}/v1/xorbs/default/{xorb}", data, token=access).status == 200
    return url, access


def test_a_xorb_is_read_through_once_however_often_a_file_comes_back_to_it(
    server: Server, address: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, access = address
    read: list[Layout] = []

    def seen(blocks: Any) -> Layout:
        read.append(scan(blocks))
        return read[-1]

    monkeypatch.setattr(xet, "scan", seen)

    answer = server.ask("POST", f"{url}/v1/shards", shard(bytes(range(20)) * 5, [*XORBS] * 5), token=access)

    assert (answer.status, answer.json(), len(read)) == (200, {"result": 1}, 20)


def test_a_shard_that_names_more_xorbs_than_can_be_kept_in_mind_is_refused(
    server: Server, address: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, access = address
    monkeypatch.setattr(xet, "_MOST_CHUNKS", 19)

    too_many = server.ask("POST", f"{url}/v1/shards", shard(bytes(range(20)), XORBS), token=access)
    fewer = server.ask("POST", f"{url}/v1/shards", shard(bytes(range(19)), [*XORBS][:19]), token=access)

    assert (too_many.status, fewer.status) == (413, 200)
