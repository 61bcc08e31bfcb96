"""How fast a large wheel is sent, to one client and to many, against nginx that sends the very same file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from benchmarks.serving import processes
from benchmarks.serving.client import Client, drain, request
from benchmarks.serving.figures import Figure

__all__ = ["measure"]

_SIZE = 128 << 20
_BYTES = 1 << 30  # of one measurement, together
_CLIENTS = (1, 4, 16)


def measure(scratch: Path, rounds: int) -> Iterator[Figure]:
    """Bytes per second, by the clock and per CPU second of the server, in turns with nginx."""
    content = os.urandom(_SIZE)
    with processes.registry(scratch / "downloads") as server:
        client = Client(server.port, server.token, "admin/relu")
        client.create()
        line = client.upload("wheels/relu.whl", content)
        client.commit(line)
        sha256 = line["value"]["oid"]
        asked = request("GET", "/kernels/admin/relu/resolve/main/wheels/relu.whl")
        with processes.nginx(scratch / "downloads/objects/sha256", scratch / "nginx") as rival:
            theirs = request("GET", f"/{sha256[:2]}/{sha256}")
            for clients in _CLIENTS:
                pairs = [
                    (_speed(server, asked, clients), _speed(rival, theirs, clients) if rival else None)
                    for _ in range(rounds)
                ]
                name = f"{clients} client{'s' if clients > 1 else ''}"
                for index, (what, unit) in enumerate(((name, "MB/s"), (f"{name}, of CPU time", "MB/CPU s"))):
                    value = median(own[index] for own, _ in pairs)
                    ratios = [own[index] / other[index] for own, other in pairs if other]
                    ratio = median(ratios) if ratios else None
                    yield Figure("downloads", what, value, unit, ratio, "nginx" if ratios else "(nginx is not here)")
        yield Figure("downloads", "most memory of the server", server.peak_bytes() / 1e6, "MB")


def _speed(program: processes.Program, asked: bytes, clients: int) -> tuple[float, float]:
    """(MB per second, MB per CPU second of the server)."""
    cpu, begun = program.cpu_seconds(), time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        times = max(1, _BYTES // _SIZE // clients)
        size = sum(threads.map(lambda _: drain(program.port, asked, times), range(clients)))
    seconds, cpu = time.perf_counter() - begun, program.cpu_seconds() - cpu
    return size / 1e6 / seconds, size / 1e6 / max(cpu, 0.01)
