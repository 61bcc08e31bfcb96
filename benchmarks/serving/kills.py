"""Whether a registry that is killed while clients commit to it has, when it is back, all that it acknowledged."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from random import Random

from benchmarks.serving import processes
from benchmarks.serving.client import Client, drain, request
from benchmarks.serving.figures import Figure

__all__ = ["measure"]

_CLIENTS = 4
_REPO = "admin/relu"
_LIVES = 3  # of a server, per round
_SECONDS = (0.1, 1.5)  # that it lives, at least and at most
_PAGE = 1_000


def measure(scratch: Path, rounds: int) -> Iterator[Figure]:
    """How many commits were acknowledged over all lives, and how many of them are lost: it must be none."""
    acknowledged: dict[str, tuple[str, int]] = {}
    token, lives, lifetime = "", rounds * _LIVES, Random(1)  # noqa: S311  # the same lives every time
    for life in range(lives):
        with processes.registry(scratch / "kills", token=token) as server:
            token = server.token
            if not life:
                Client(server.port, token, _REPO).create()
            names = [f"{life}-{client}" for client in range(_CLIENTS)]
            clients = [threading.Thread(target=_work, args=(server, name, acknowledged)) for name in names]
            for client in clients:
                client.start()
            time.sleep(lifetime.uniform(*_SECONDS))
            server.process.kill()
            for client in clients:
                client.join()
    with processes.registry(scratch / "kills", token=token) as server:
        kept = set(_history(Client(server.port, token, _REPO)))
        sizes = {commit: _size(server, commit, path) for commit, (path, _) in acknowledged.items() if commit in kept}
    lost = [commit for commit, (_, size) in acknowledged.items() if sizes.get(commit) != size]
    yield Figure("kills", f"commits acknowledged in {lives} lives", len(acknowledged), "")
    yield Figure("kills", "of them lost", len(lost), "")


def _work(server: processes.Program, name: str, acknowledged: dict[str, tuple[str, int]]) -> None:
    """Commit until the server dies."""
    client = Client(server.port, server.token, _REPO)
    try:
        for number in itertools.count():
            path, content = f"{name}/{number}", f"{name} {number} ".encode() * 20_000
            line = client.upload(path, content) if number % 2 else client.inline(path, content)
            acknowledged[client.commit(line)] = path, len(content)
    except (OSError, HTTPException):
        return


def _size(server: processes.Program, commit: str, path: str) -> int:
    """The bytes that the server sends of this file."""
    return drain(server.port, request("GET", f"/kernels/{_REPO}/resolve/{commit}/{path}"), 1)


def _history(client: Client) -> Iterator[str]:
    """The ids of all commits of `main`."""
    last = "main"
    while found := client.ask("GET", f"/api/kernels/{client.repo_id}/commits/{last}?limit={_PAGE}"):
        yield from (commit["id"] for commit in found)
        if len(found) < _PAGE:
            return
        last = found[-1]["id"]
