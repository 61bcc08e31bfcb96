"""How many index reads one core answers, and how long they take: what a cluster asks a registry when it starts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.serving import processes
from benchmarks.serving.client import Answers, Client, closed_loop, request
from benchmarks.serving.figures import Figure, quantile

__all__ = ["measure"]

_REPO = "admin/relu"
_RIVAL = "an empty application"
_INDEX = json.dumps({"variants": ["x" * 1_000] * 20}).encode()  # as long as that of twenty variants
_QUESTIONS = {
    "GET kernel.json at v1": request("GET", f"/kernels/{_REPO}/resolve/v1/kernel.json"),
    "HEAD kernel.json at v1": request("HEAD", f"/kernels/{_REPO}/resolve/v1/kernel.json"),
    "GET refs": request("GET", f"/api/kernels/{_REPO}/refs"),
    "GET the kernel": request("GET", f"/api/kernels/{_REPO}"),
}


def measure(scratch: Path, rounds: int) -> Iterator[Figure]:
    """Reads per second, by the clock and per CPU second of the server, against an application that does nothing."""
    with processes.registry(scratch / "reads") as server, processes.bare(len(_INDEX)) as rival:
        client = Client(server.port, server.token, _REPO)
        client.create()
        client.branch("v1")
        client.commit(client.inline("kernel.json", _INDEX), branch="v1")
        for name, asked in _QUESTIONS.items():
            _load(server, asked)  # warm
            pairs = [(_load(server, asked), _load(rival, request("GET", "/"))) for _ in range(rounds)]
            yield from _figures(name, pairs)
            waits = [wait for own, _ in pairs for wait in own.answers.waits]
            yield Figure("reads", f"{name}, p50", quantile(waits, 0.5) * 1e3, "ms")
            yield Figure("reads", f"{name}, p99", quantile(waits, 0.99) * 1e3, "ms")


@dataclass(frozen=True)
class _Load:
    """What came of a load, and how many answers that were per CPU second of the server."""

    answers: Answers
    per_cpu: float


def _load(program: processes.Program, asked: bytes) -> _Load:
    before = program.cpu_seconds()
    answers = closed_loop(program.port, asked, connections=4, seconds=1.5)
    return _Load(answers, len(answers.waits) / (program.cpu_seconds() - before))


def _figures(name: str, pairs: Sequence[tuple[_Load, _Load]]) -> Iterator[Figure]:
    rate = median(own.answers.rate for own, _ in pairs)
    ratio = median(own.answers.rate / other.answers.rate for own, other in pairs)
    yield Figure("reads", name, rate, "/s", ratio, _RIVAL)
    per_cpu = median(own.per_cpu for own, _ in pairs)
    yield Figure(
        "reads", f"{name}, of CPU time", per_cpu, "/CPU s", median(a.per_cpu / b.per_cpu for a, b in pairs), _RIVAL
    )
