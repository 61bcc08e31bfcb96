"""Mirrors of locked artifacts: filled, read back, and enough for a build without any other origin."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.digest import hash_file
from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import SILENT
from kernelworks_build.toolchain.cut import cut
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact, Lock
from kernelworks_build.toolchain.mirror import pull, push
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.recipes import layout

HEADER, LIBRARY = "nvidia/cu13/include/cublas.h", "nvidia/cu13/lib/libcublas.so.13"


class Store(BaseHTTPRequestHandler):
    """A file server that takes PUT; its server has the files."""

    server: Any

    def do_HEAD(self) -> None:
        self.send_response(200 if self.path in self.server.files else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        data = self.server.files.get(self.path)
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.server.answer)
        self.end_headers()
        if self.server.answer == 201:
            self.server.files[self.path] = data

    def log_message(self, *_: object) -> None:
        """Tests are silent."""


@pytest.fixture
def server() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as running:
        running.files, running.answer = {}, 201  # type: ignore[attr-defined]
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    """A lock whose wheels lie in the cache: one is needed whole, of the other only the headers."""
    artifacts = []
    (tmp_path / "cache" / "artifacts").mkdir(parents=True)
    for name in ("nvidia-cuda-crt", "nvidia-cublas"):
        wheel = tmp_path / f"{name}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(HEADER, f"// {name}")
            archive.writestr(LIBRARY, name * 1000)
        size, sha256 = hash_file(wheel)
        wheel.rename(tmp_path / "cache" / "artifacts" / sha256)
        artifacts.append(Artifact(name, "1", "wheel", wheel.name, size, sha256))
    return Lock("cuda-13.0", "cuda", "0" * 64, tuple(sorted(artifacts)))


def fetcher(cache: Path, *mirrors: str) -> Fetcher:
    return Fetcher(cache, Origins.of(mirrors=mirrors), SILENT)


def header_of(lock: Lock, cache: Fetcher) -> list[tuple[str, bytes]]:
    members, _ = cut(lock.artifacts[0], layout("cuda").cut["nvidia-cublas"], cache, relock="")
    return list(members)


def test_a_folder_gets_whole_artifacts_by_digest_and_of_others_what_is_read_of_them(lock: Lock, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    items = push([lock], str(mirror), fetcher(tmp_path / "cache")).items
    cublas, crt = lock.artifacts
    assert [item.copied for item in items] == [True, True]
    assert hash_file(mirror / "artifacts" / crt.sha256[:2] / crt.sha256) == (crt.size, crt.sha256)
    (excerpt,) = (mirror / "artifacts" / cublas.sha256[:2]).iterdir()
    with zipfile.ZipFile(excerpt) as archive:
        assert archive.namelist() == [HEADER]
    again = push([lock], str(mirror), fetcher(tmp_path / "cache")).items
    assert [item.copied for item in again] == [False, False]


def test_what_is_pulled_is_enough_without_the_mirror_and_the_mirror_without_a_pull(lock: Lock, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    push([lock], str(mirror), fetcher(tmp_path / "cache"))
    pulled = fetcher(tmp_path / "pulled")
    assert all(item.copied for item in pull([lock], str(mirror), pulled).items)
    assert not any(item.copied for item in pull([lock], str(mirror), pulled).items)
    direct = fetcher(tmp_path / "direct", str(mirror))
    for cache in (pulled, direct):
        assert header_of(lock, cache) == [(HEADER, b"// nvidia-cublas")]
        assert cache.fetch([lock.artifacts[1]])


def test_a_server_that_takes_puts_is_a_mirror(lock: Lock, server: Any, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{server.server_address[1]}/depot"
    assert all(item.copied for item in push([lock], url, fetcher(tmp_path / "cache")).items)
    assert not any(item.copied for item in push([lock], url, fetcher(tmp_path / "cache")).items)
    pulled = fetcher(tmp_path / "pulled")
    pull([lock], url, pulled)
    assert header_of(lock, pulled) == [(HEADER, b"// nvidia-cublas")]


def test_a_server_that_refuses_is_told_with_its_answer(lock: Lock, server: Any, tmp_path: Path) -> None:
    server.answer = 403
    with pytest.raises(ToolchainError, match="takes nothing: 403 Forbidden"):
        push([lock], f"http://127.0.0.1:{server.server_address[1]}", fetcher(tmp_path / "cache"))


def test_bytes_of_a_mirror_that_are_not_those_of_the_lock_are_refused(lock: Lock, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    push([lock], str(mirror), fetcher(tmp_path / "cache"))
    crt = lock.artifacts[1]
    (mirror / "artifacts" / crt.sha256[:2] / crt.sha256).write_bytes(b"x" * crt.size)
    (excerpt,) = (mirror / "artifacts" / lock.artifacts[0].sha256[:2]).iterdir()
    excerpt.write_bytes(b"x")
    with pytest.raises(ToolchainError, match="is not that of the lock"):
        pull([lock], str(mirror), fetcher(tmp_path / "pulled"))
    with pytest.raises(ToolchainError, match="is no zip file of what is read of"):
        header_of(lock, fetcher(tmp_path / "direct", str(mirror)))


def test_what_may_not_be_passed_on_is_left_out_and_taken_where_somebody_put_it(lock: Lock, tmp_path: Path) -> None:
    deb = tmp_path / "nvcc.deb"
    deb.write_bytes(b"not free")
    size, sha256 = hash_file(deb)
    nvcc = Artifact("nvcc", "1", "deb", deb.name, size, sha256, "pool/non-free/n/nvcc/nvcc.deb")
    with_nvcc = replace(lock, artifacts=(*lock.artifacts, nvcc))
    mirror = tmp_path / "mirror"
    pushed = push([with_nvcc], str(mirror), fetcher(tmp_path / "cache"))  # which has it not: it is not even fetched
    assert ([item.copied for item in pushed.items], pushed.left_out) == ([True, True], (nvcc,))
    pulled = pull([with_nvcc], str(mirror), fetcher(tmp_path / "pulled"))
    assert (len(pulled.items), pulled.left_out) == (2, (nvcc,))
    place = mirror / "artifacts" / sha256[:2] / sha256
    place.parent.mkdir(exist_ok=True)
    deb.rename(place)
    assert pull([with_nvcc], str(mirror), fetcher(tmp_path / "again")).left_out == ()


def test_the_program_says_what_it_leaves_out_and_why(kernel_build: Callable[..., Any], tmp_path: Path) -> None:
    locks = tmp_path / "toy" / "kernel-locks"
    locks.mkdir(parents=True)
    nvcc = Artifact("nvcc", "1", "deb", "nvcc.deb", 1, "0" * 64, "pool/non-free/n/nvcc/nvcc.deb")
    (locks / "own.toml").write_text(Lock("own", "host", "0" * 64, (nvcc,)).dump())
    done = kernel_build("toolchain", "push", tmp_path / "toy", "--to", tmp_path / "mirror", "--only", "own")
    assert (done.code, "left out: `nvcc.deb` of `own`: Debian's non-free packages" in done.stderr) == (0, True)


def test_the_program_says_what_a_mirror_lacks(kernel_build: Callable[..., Any], tmp_path: Path) -> None:
    env = {"KERNELWORKS_CACHE": str(tmp_path / "cache")}
    done = kernel_build("toolchain", "pull", "--from", tmp_path / "empty", "--only", "tools", "--json", env=env)
    assert done.code == 22
    assert "is at none of its origins" in done.document["error"]["message"]


@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.slow
def test_a_kernel_is_built_from_a_mirror_alone_with_the_same_bytes(
    project: Path, kernel_build: Callable[..., Any], tmp_path: Path
) -> None:
    names = ("host", "python", "sysroot", "tools", "torch-2.11.0")
    only = [argument for name in names for argument in ("--only", name)]
    assert kernel_build("toolchain", "push", "--to", tmp_path / "mirror", *only).code == 0
    nowhere = "http://127.0.0.1:9"
    env = {
        "KERNELWORKS_ARTIFACTS": str(tmp_path / "mirror"),
        "KERNELWORKS_CACHE": str(tmp_path / "cache"),
        "KERNELWORKS_DEB_MIRROR": nowhere,
        "KERNELWORKS_PYPI_INDEX": nowhere,
    }
    done = kernel_build("build", project, "--variant", "*-cpu-*", "--out", tmp_path / "dist", "--json", env=env)
    assert done.code == 0, done.stderr
    (wheel,) = (project / "dist" / "wheels").iterdir()
    assert not done.document["variants"][0]["cached"]
    assert (tmp_path / "dist" / "wheels" / wheel.name).read_bytes() == wheel.read_bytes()
