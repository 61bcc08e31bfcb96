"""Whether a registry that is killed while clients commit to it has, when it is back, all that it acknowledged."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from random import Random

from benchmarks.registry import processes
from benchmarks.registry.client import Client
from benchmarks.registry.figures import Figure

__all__ = ["measure"]

_CLIENTS = 4
_LONGEST = 1.5  # seconds of a server's life
_PAGE = 1_000


def measure(scratch: Path, rounds: int) -> Iterator[Figure]:
    """How many commits were acknowledged over all rounds, and how many of them are lost: it must be none."""
    acknowledged: set[str] = set()
    token, lifetime = "", Random(1)  # noqa: S311  # the same lives every time
    for round_ in range(rounds * 3):
        with processes.registry(scratch / "kills", token=token) as server:
        kept = set(_history(Client(server.port, token, "admin/relu")))
    yield Figure("kills", f"commits acknowledged in {rounds * 3} lives", len(acknowledged), "")
    yield Figure("kills", "of them lost", len(acknowledged - kept), "")


def _commit_until_it_dies(server: processes.Program, name: str, acknowledged: set[str]) -> None:
    try:
        client = Client(server.port, server.token, "admin/relu")
        for number in itertools.count():
            path, content = f"{name}/{number}", f"{name} {number} ".encode() * 20_000
            line = client.upload(path, content) if number % 2 else client.inline(path, content)
            acknowledged.add(client.commit(line))
    except (OSError, HTTPException):
        return


def _history(client: Client) -> Iterator[str]:
    """The ids of all commits of `main`."""
    last = "main"
    while found := client.ask("GET", f"/api/kernels/{client.repo_id}/commits/{last}?limit={_PAGE}"):
        yield from (commit["id"] for commit in found)
        if len(found) < _PAGE:
            return
        last = found[-1]["id"]
