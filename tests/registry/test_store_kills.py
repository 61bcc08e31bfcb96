"""Processes that load from a server are killed at random instants of download, unpack and rename."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from kernelworks.model.digest import hash_file, list_tree
from kernelworks.model.variant import Variant

Pack = Callable[..., tuple[Variant, bytes]]

KILLS = int(os.environ.get("KERNELWORKS_TEST_KILLS", "16"))
"""A thousand take a quarter of an hour, and were survived when this was written."""
SOURCES = {
    "__init__.py": b"def twice(x):\n    return 2 * x\n",
    **{f"data/{number}.bin": random.Random(number).randbytes(20_000) for number in range(60)},
}
LOAD = "import kernelworks, kernelworks.api\nprint(flush=True)\nprint(kernelworks.get_kernel('org/demo').twice(21))\n"


class Server(ThreadingHTTPServer):
    """A registry with one version of one kernel, in the folder `revision`."""

    daemon_threads = True
    commit = revision = None

    def handle_error(self, *_: Any) -> None:
        """A client that is killed hangs up."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path.endswith("/refs"):
            branch = {"name": "v1", "targetCommit": self.server.commit}
            data = json.dumps({"branches": [branch], "tags": [], "converts": []}).encode()
        elif self.path.endswith("/overview"):
            data = b'{"trustedKernelPublisher": true}'
        else:
            data = (Path(str(self.server.revision)) / self.path.split("/", 6)[-1]).read_bytes()
        start = int((self.headers["Range"] or "bytes=0-")[6:-1])
        self.send_response(206 if self.headers["Range"] else 200)
        self.send_header("X-Repo-Commit", str(self.server.commit))
        self.send_header("Content-Length", str(len(data) - start))
        if self.headers["Range"]:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        for position in range(start, len(data), 100_000):  # slowly enough to be cut
            self.wfile.write(data[position : position + 100_000])
            time.sleep(0.01)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, pack: Pack, make_revision: Callable[..., str]) -> Iterator[tuple[Server, Variant]]:
    variant, wheel = pack(SOURCES)
    with Server(("127.0.0.1", 0), Handler) as made:
        made.revision = tmp_path / "revision"
        made.commit = make_revision(made.revision, "demo", 1, [(variant, wheel)])
        thread = Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made, variant
        made.shutdown()
        thread.join()


def test_what_killed_processes_leave_is_never_torn_and_never_in_the_way(
    tmp_path: Path, server: tuple[Server, Variant], processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, variant = server
    monkeypatch.setenv("KERNELWORKS_REGISTRY", f"http://127.0.0.1:{made.server_port}")
    cache = tmp_path / "cache"
    wheel = cache / "artifacts" / variant.wheel.sha256
    part = wheel.with_suffix(".part")
    kernel = cache / "kernels" / variant.wheel.sha256
    chance = random.Random(11)  # spreads instants
    left = dict.fromkeys((part, wheel, kernel), 0)
    for number, sight in enumerate(itertools.cycle((cache, part, wheel, kernel))):
        if number >= KILLS and (all(left.values()) or number >= 10 * KILLS):  # chance gets more chances
            break
        if kernel.exists():
            shutil.rmtree(cache)
        process = processes.start(LOAD)
        process.stdout.readline()
        while not sight.exists() and process.poll() is None:
            time.sleep(0.0005)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.communicate()
        for path in filter(Path.exists, left):
            left[path] += 1
        assert not wheel.exists() or hash_file(wheel)[1] == wheel.name
        assert not kernel.exists() or tuple(list_tree(kernel)) == variant.files
    assert processes.start(LOAD).communicate() == ("\n42\n", "")
    assert all(left.values()), "no kill fell into a download, an unpack or an import"


@pytest.mark.parametrize("lock", ["lambda *_: None", "lambda *_: os.close(-1)"], ids=["lies", "fails"])
def test_processes_that_download_at_once_where_locks_do_not_hold_all_get_the_kernel(
    tmp_path: Path, server: tuple[Server, Variant], processes: Any, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    monkeypatch.setenv("KERNELWORKS_REGISTRY", f"http://127.0.0.1:{server[0].server_port}")
    running = [processes.start(f"import fcntl, os\nfcntl.flock = {lock}\n{LOAD}") for _ in range(4)]
    assert [process.communicate() for process in running] == [("\n42\n", "")] * 4
    assert [path.name for path in (tmp_path / "cache/kernels").iterdir()] == [server[1].wheel.sha256]
