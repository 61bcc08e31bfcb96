"""How fast a registry takes what is sent to it in three ways, against hashing the bytes and writing them down."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.serving import processes
from benchmarks.serving.client import Client
from benchmarks.serving.figures import Figure

__all__ = ["measure"]

_LARGE = 64 << 20
_SMALL = 4 << 20  # of a file that travels in the lines of a commit; there are as many as make a large one
_STOCK = """
import sys, time
from huggingface_hub import HfApi
repo, path = sys.argv[1:]
begun = time.perf_counter()
HfApi().upload_file(path_or_fileobj=path, path_in_repo="large.bin", repo_id=repo, repo_type="kernel")
print(time.perf_counter() - begun)
"""


def measure(scratch: Path, rounds: int) -> Iterator[Figure]:
    """MB per second of a commit with new bytes, all requests together, and the most memory that the server took."""
    for name, send in (("Git LFS", _lfs), ("in the commit", _inline), ("Xet, by huggingface_hub", _xet)):
        root = scratch / f"uploads-{name.partition(' ')[0]}"
        with processes.registry(root) as server:
            client = Client(server.port, server.token, "admin/relu")
            client.create()
            idle = server.peak_bytes()
            pairs = [(_seconds(scratch, server, client, send), _plainly(scratch)) for _ in range(rounds)]
            speed = _LARGE / 1e6 / median(own for own, _ in pairs)
            ratio = median(plain / own for own, plain in pairs)
            yield Figure("uploads", name, speed, "MB/s", ratio, "sha256, write and fsync")
            yield Figure("uploads", f"{name}, memory above idle", (server.peak_bytes() - idle) / 1e6, "MB")


_Send = Callable[[Path, processes.Program, Client], float]


def _seconds(scratch: Path, server: processes.Program, client: Client, send: _Send) -> float:
    large = scratch / "large.bin"
    large.write_bytes(os.urandom(_LARGE))
    return send(large, server, client)


def _lfs(large: Path, _: processes.Program, client: Client) -> float:
    content, begun = large.read_bytes(), time.perf_counter()
    client.commit(client.upload("large.bin", content))
    return time.perf_counter() - begun


def _inline(large: Path, _: processes.Program, client: Client) -> float:
    content, begun = large.read_bytes(), time.perf_counter()
    client.commit(*(client.inline(str(at), content[at : at + _SMALL]) for at in range(0, _LARGE, _SMALL)))
    return time.perf_counter() - begun


def _xet(large: Path, server: processes.Program, client: Client) -> float:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    home = large.with_name("hf")
    environment |= {"HF_ENDPOINT": server.url, "HF_TOKEN": server.token, "HF_HOME": str(home)}
    command = [sys.executable, "-c", _STOCK, client.repo_id, str(large)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _plainly(scratch: Path) -> float:
    """The seconds that it takes to hash such a file and to have it on the disk."""
    content, begun = (scratch / "large.bin").read_bytes(), time.perf_counter()
    hashlib.sha256(content).digest()
    with (scratch / "plain.bin").open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begun
