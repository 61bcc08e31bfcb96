"""Bytes by their hash: what is kept, what is refused, and that nothing half-written stays."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import hypothesis
import obstore
import pytest
from hypothesis import strategies as st

from kernelworks_server.errors import NotFound, TooLarge, Unprocessable
from kernelworks_server.services import Services

pytestmark = pytest.mark.backing("sqlite+folder", "sqlite+s3")

MIB = 1 << 20


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def stored(services: Services) -> dict[str, datetime]:
    """The key of every object and when it was written."""
    listed = obstore.list(services.blobs._store.objects)
    return {entry["path"]: entry["last_modified"] for batch in listed for entry in batch}


def test_what_was_put_is_read_back_under_its_hash(services: Services) -> None:
    data = [b"one ", b"", b"two"]
    assert services.blobs.put(data, expected=sha256(b"one two"), limit=7) == (sha256(b"one two"), 7)
    assert b"".join(services.blobs.read(sha256(b"one two"))) == b"one two"
    assert services.blobs.size(sha256(b"one two")) == 7
    assert set(stored(services)) == {f"sha256/{sha256(b'one two')[:2]}/{sha256(b'one two')}"}


def test_no_bytes_are_a_blob_too(services: Services) -> None:
    digest, size = services.blobs.put([], expected=None, limit=0)
    assert (digest, size) == (sha256(b""), 0)
    assert services.blobs.size(digest) == 0
    assert list(services.blobs.read(digest)) == []


def test_every_range_gives_the_bytes_of_a_slice(services: Services) -> None:
    data = bytes(range(256)) * 12_000
    digest, size = services.blobs.put([data], expected=None, limit=len(data))

    @hypothesis.settings(deadline=None, max_examples=30, database=None)
    @hypothesis.given(st.integers(0, size + 10), st.none() | st.integers(0, size + 10))
    def check(start: int, stop: int | None) -> None:
        assert b"".join(services.blobs.read(digest, start, stop)) == data[start:stop]

    check()


def test_a_large_blob_is_read_in_chunks(services: Services) -> None:
    digest, _ = services.blobs.put((b"x" * MIB for _ in range(24)), expected=None, limit=24 * MIB)
    assert max(len(chunk) for chunk in services.blobs.read(digest)) < 12 * MIB


def test_the_wrong_hash_is_refused_with_both_and_nothing_stays(services: Services) -> None:
    with pytest.raises(Unprocessable) as caught:
        services.blobs.put([b"forged"], expected=sha256(b"genuine"), limit=100)
    assert caught.value.context == {"expected": sha256(b"genuine"), "got": sha256(b"forged")}
    assert stored(services) == {}


def test_an_endless_body_is_refused_at_the_limit_and_nothing_stays(services: Services) -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * MIB

    with pytest.raises(TooLarge):
        services.blobs.put(endless(), expected=None, limit=30 * MIB)
    assert taken == 31
    assert stored(services) == {}


def test_an_upload_that_breaks_off_leaves_nothing(services: Services) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * 20 * MIB
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        services.blobs.put(broken(), expected=None, limit=100 * MIB)
    assert stored(services) == {}


def test_the_same_bytes_are_stored_once(services: Services) -> None:
    digest, _ = services.blobs.put([b"twin"], expected=None, limit=10)
    before = stored(services)
    services.blobs.put([b"tw", b"in"], expected=digest, limit=10)
    assert stored(services) == before


def test_a_blob_that_lost_bytes_is_repaired_by_the_next_upload(services: Services) -> None:
    digest, _ = services.blobs.put([b"whole"], expected=None, limit=10)
    (key,) = stored(services)
    obstore.put(services.blobs._store.objects, key, b"who")
    services.blobs.put([b"whole"], expected=digest, limit=10)
    assert b"".join(services.blobs.read(digest)) == b"whole"


@pytest.mark.parametrize("name", ["", "0" * 63, "A" * 64, "../../secret", "../secret" + "0" * 55, "0" * 64])
def test_what_is_no_blob_is_not_found(services: Services, name: str) -> None:
    assert services.blobs.size(name) is None
    with pytest.raises(NotFound):
        services.blobs.read(name)


@pytest.mark.backing("sqlite+s3")
def test_what_is_too_large_for_the_store_to_copy_is_sent_again(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelworks_server.blobs._COPIED_AT_ONCE", 3)
    digest, _ = services.blobs.put([b"large"], expected=None, limit=10)
    assert b"".join(services.blobs.read(digest)) == b"large"
    assert set(stored(services)) == {f"sha256/{digest[:2]}/{digest}"}


UPLOAD = """
import resource, sys
from pathlib import Path
from kernelworks_server.config import open_config
from kernelworks_server.services import open_services

def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

services = open_services(open_config(Path(sys.argv[1])))
before = most()
services.blobs.put((bytes([number]) * (1 << 20) for number in range(200)), expected=None, limit=1 << 30)
print(most() - before)
services.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process counts its memory in other units")
@pytest.mark.backing("sqlite+folder")
def test_an_upload_takes_little_memory_however_large_it_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UPLOAD, str(tmp_path / "r")], capture_output=True, text=True, check=True
    )

    assert int(done.stdout) < 50  # MiB, of 200
