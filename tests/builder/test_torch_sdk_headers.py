"""Headers of a torch wheel by range requests, against a package index on loopback."""

from __future__ import annotations

import io
import json
import random
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kernelworks.model.digest import hash_bytes
from kernelworks_build.action import Action, ActionResult, Tree
from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import Progress, SilentProgress
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact, Lock, symbol_list_name
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.symbol_list import symbols
from kernelworks_build.toolchain.torch_sdk import LIBRARIES, build_torch, lock_torch
from kernelworks_build.toolchain.tree import FileEntry, digest_of, write

NAME = "torch-9.9.9-cp312-cp312-manylinux_2_28_x86_64.whl"
HEADERS = {
    f"torch/include/ATen/ops/op_{number}.h": b"#pragma once\n" + bytes([65 + number % 26]) * 999 for number in range(60)
}
TAIL = 1024
"""Bytes that are asked for first: the end records."""


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)  # not a secret


def wheel_of(headers: dict[str, bytes]) -> bytes:
    """A wheel whose headers lie in one run, as in torch's; its libraries are an extension module."""
    library = Path(find_spec("_ctypes").origin).read_bytes()  # type: ignore[union-attr, arg-type]
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("torch/bin/protoc", noise(300_000))
        for name, content in headers.items():
            archive.writestr(name, content)
        for name in LIBRARIES:
            archive.writestr(f"torch/lib/lib{name}.so", library)
        archive.writestr("torch-9.9.9.dist-info/METADATA", "Name: torch")
    return data.getvalue()


WHEEL = wheel_of(HEADERS)


def lock_for(wheel: bytes, headers: dict[str, bytes] = HEADERS) -> Lock:
    """The lock of a wheel with these headers."""
    with TemporaryDirectory() as folder:
        entries = (FileEntry(name.removeprefix("torch/"), False, data) for name, data in headers.items())
        write(Path(folder), entries, NAME)
        digest = digest_of(Path(folder))
    artifact = Artifact("torch", "9.9.9", "wheel", NAME, len(wheel), hash_bytes(wheel))
    return Lock("torch-9.9.9", "torch", digest, (artifact,))


@dataclass
class Index:
    """A simple index with one wheel.

    Attributes:
        wheel: Its bytes.
        ranges: Whether the server knows ranges.
        cuts: How many of the next answers longer than `TAIL` end in the middle.
        sent: (first byte, number of bytes) of each answer that held a part of the wheel.
    """

    wheel: bytes
    ranges: bool = True
    cuts: int = 0
    sent: list[tuple[int, int]] = field(default_factory=list)
    url: str = ""

    @property
    def origins(self) -> Origins:
        return Origins.of(indexes=[f"{self.url}/simple"])

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/simple/torch/":
            entry = {"filename": NAME, "url": f"/files/{NAME}", "hashes": {"sha256": hash_bytes(self.wheel)}}
            kind, body = "application/vnd.pypi.simple.v1+json", json.dumps({"files": [entry]}).encode()
            self._send(handler, 200, body, {"Content-Type": kind})
            return
        size, wanted = len(self.wheel), handler.headers.get("Range")
        if not (wanted and self.ranges):
            self.sent.append((0, size))
            self._send(handler, 200, self.wheel, {})
            return
        first, last = (int(number) if number else size - 1 for number in wanted.removeprefix("bytes=").split("-"))
        part = self.wheel[first : last + 1]
        self.sent.append((first, len(part)))
        self._send(handler, 206, part, {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{size}"})

    def _send(self, handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "Connection": "close"}.items():
            handler.send_header(name, value)
        handler.end_headers()
        cut = self.cuts > 0 and status == 206 and len(body) > TAIL
        self.cuts -= cut
        handler.wfile.write(body[: len(body) // 2] if cut else body)


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, index: Index, *connection: object) -> None:
        self.index = index
        super().__init__(*connection)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.index.answer(self)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def index() -> Iterator[Index]:
    index = Index(WHEEL)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, index)) as server:
        index.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield index
        server.shutdown()
        thread.join()


class NoCompiler:
    """An executor that leaves the stubs away: these tests are about headers."""

    name = "none"
    hermetic = False

    def check(self) -> None:
        """Works everywhere."""

    def run(
        self, action: Action, build_dir: Path, log: Path, on_line: Callable[[str], None] | None = None
    ) -> ActionResult:
        del action, on_line
        log.touch()
        return ActionResult(0, False, False, log, build_dir, 0.0, 0, self.name, self.hermetic)


HOST = Tree("0" * 64, Path("/nonexistent"))


class Notes(SilentProgress):
    """A listener that keeps what stays on the screen."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def materialise(
    lock: Lock,
    origins: Origins,
    folder: Path,
    expected: str | None = None,
    progress: Progress = SilentProgress(),  # noqa: B008  # it has no state
) -> Tree:
    fetcher = Fetcher(folder, origins, progress)
    return TreeStore(folder / "trees").add(
        lambda into: build_torch(into, lock, fetcher=fetcher, host=HOST, executor=NoCompiler()), expected
    )


def headers_in(tree: Tree) -> dict[str, bytes]:
    return {f"torch/{path.relative_to(tree.path).as_posix()}": path.read_bytes() for path in tree.path.rglob("*.h")}


def artifacts_in(folder: Path) -> set[str]:
    return {path.name for path in (folder / "artifacts").glob("*") if len(path.name) == 64}


def test_only_the_directory_and_the_headers_of_the_wheel_are_fetched(index: Index, tmp_path: Path) -> None:
    tree = materialise(lock_for(WHEEL), index.origins, tmp_path)
    with zipfile.ZipFile(io.BytesIO(WHEEL)) as archive:
        offset_of = {info.filename: info.header_offset for info in archive.infolist()}
        start, stop = offset_of[next(iter(HEADERS))], offset_of[f"torch/lib/lib{LIBRARIES[0]}.so"]
        directory = (archive.start_dir, len(WHEEL) - 22 - archive.start_dir)
    assert headers_in(tree) == HEADERS
    assert index.sent == [(len(WHEEL) - TAIL, TAIL), directory, (start, stop - start)]


def test_a_server_without_ranges_gives_the_whole_wheel(index: Index, tmp_path: Path) -> None:
    index.ranges = False
    notes = Notes()
    tree = materialise(lock_for(WHEEL), index.origins, tmp_path, progress=notes)
    assert headers_in(tree) == HEADERS
    assert artifacts_in(tmp_path) == {hash_bytes(WHEEL)}
    (said,) = notes.said
    assert f"`{index.url}/files/{NAME}` gives no ranges (its server ignores ranges)" in said
    assert "fetching all 4 MB" in said


def test_a_wheel_in_a_local_folder_needs_no_network(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(WHEEL)
    tree = materialise(lock_for(WHEEL), Origins.of(links=[str(tmp_path)]), tmp_path / "cache")
    assert headers_in(tree) == HEADERS


def test_a_connection_that_is_cut_is_tried_again(index: Index, tmp_path: Path) -> None:
    index.cuts = 1
    tree = materialise(lock_for(WHEEL), index.origins, tmp_path)
    assert headers_in(tree) == HEADERS
    assert artifacts_in(tmp_path) == set()


def test_headers_larger_than_one_request_arrive_in_order(index: Index, tmp_path: Path) -> None:
    large = {f"torch/include/{number}.h": noise(3 << 20, number) for number in range(4)}
    index.wheel = wheel_of(large)
    assert headers_in(materialise(lock_for(index.wheel, large), index.origins, tmp_path)) == large
    assert max(size for _, size in index.sent) == 4 << 20


def test_another_header_than_the_locked_one_is_refused_with_the_digest_expected_and_got(
    index: Index, tmp_path: Path
) -> None:
    lock = lock_for(WHEEL)
    index.wheel = wheel_of(HEADERS | {"torch/include/ATen/ops/op_7.h": b"#pragma twice" + b"H" * 999})
    with pytest.raises(ToolchainError, match=f"serves as `{NAME}` is not what was locked") as caught:
        materialise(lock, index.origins, tmp_path, lock.digest)
    assert caught.value.context["expected"] == lock.digest
    assert caught.value.context["got"] not in {None, lock.digest}
    assert f"{index.url}/files/{NAME}" in caught.value.message
    assert TreeStore(tmp_path / "trees").get(lock.digest) is None


def test_a_byte_that_changed_on_the_way_is_an_error_that_names_the_file(index: Index, tmp_path: Path) -> None:
    broken = bytearray(WHEEL)
    broken[WHEEL.index(b"AAAA")] ^= 1
    index.wheel = bytes(broken)
    with pytest.raises(ToolchainError, match=r"is not the zip file of the lock: Bad CRC-32 for file .*op_0\.h"):
        materialise(lock_for(WHEEL), index.origins, tmp_path)


def test_something_that_is_no_zip_file_is_refused(index: Index, tmp_path: Path) -> None:
    index.wheel = bytes(len(WHEEL))
    with pytest.raises(ToolchainError, match="is not the zip file of the lock"):
        materialise(lock_for(WHEEL), index.origins, tmp_path)


def test_a_wheel_that_no_origin_has_is_named_with_the_command_that_pins_another(index: Index, tmp_path: Path) -> None:
    lock = lock_for(WHEEL)
    gone = replace(lock, artifacts=(replace(lock.artifacts[0], file="torch-9.9.8.whl"),))
    with pytest.raises(ToolchainError, match=r"`torch-9\.9\.8\.whl`.*at none of its origins") as caught:
        materialise(gone, index.origins, tmp_path)
    assert "kernel-build lock --torch 9.9.9" in str(caught.value.hint)


def test_a_lock_holds_the_digest_that_a_range_fetch_gives_and_lists_what_the_libraries_export(
    index: Index, tmp_path: Path
) -> None:
    fetcher, store = Fetcher(tmp_path, index.origins, SilentProgress()), TreeStore(tmp_path / "trees")
    lock = lock_torch("9.9.9", tmp_path, store=store, fetcher=fetcher, host=HOST, executor=NoCompiler())
    assert lock == lock_for(WHEEL)
    assert materialise(lock, index.origins, tmp_path / "other").digest == lock.digest
    assert "PyInit__ctypes" in symbols(tmp_path / symbol_list_name("torch-9.9.9"))
    assert "PyModule_Create2" not in symbols(tmp_path / symbol_list_name("torch-9.9.9"))
    assert digest_of(store.root / lock.digest) == lock.digest
