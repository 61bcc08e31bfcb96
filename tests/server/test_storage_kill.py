"""A server that many clients commit to is killed again and again, and has everything that it acknowledged."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from conftest import Backing

PROGRAM = [sys.executable, "-c", "from kernelworks_server.cli import main; main()"]
CLIENTS = 4
REPO = "admin/relu"

pytestmark = [pytest.mark.server, pytest.mark.backing("sqlite+folder", "postgresql+s3")]


@dataclass
class Acknowledged:
    """What the server said it has: files by their paths, and the commits that brought them."""

    files: dict[str, bytes] = field(default_factory=dict)
    commits: set[str] = field(default_factory=set)


@contextmanager
def serving(options: list[str]) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    command = [*PROGRAM, "serve", "--port", "0", "--api-rate", "0", "--file-rate", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        told = "".join(itertools.takewhile(lambda line: line != "}\n", process.stdout)) + "}"
        try:
            yield json.loads(told), process
        finally:
            process.kill()


def ask(url: str, token: str, method: str, path: str, body: Any = None) -> bytes:
    """The answer to a request that is granted."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method, path, data, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, (path, content)
        return content
    finally:
        connection.close()


def commit(url: str, token: str, path: str, content: bytes, *, lfs: bool) -> str:
    """The id of a commit that brings one file, as stock clients make it."""
    sha256 = hashlib.sha256(content).hexdigest()
    inline = {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}
    operation: dict[str, Any] = {"key": "file", "value": inline}
    if lfs:
        wanted = {"operation": "upload", "objects": [{"oid": sha256, "size": len(content)}]}
        batch = json.loads(ask(url, token, "POST", f"/kernels/{REPO}.git/info/lfs/objects/batch", wanted))
        href = urlsplit(batch["objects"][0]["actions"]["upload"]["href"])
        ask(url, token, "PUT", f"{href.path}?{href.query}", content)
        pointer = {"path": path, "algo": "sha256", "oid": sha256, "size": len(content)}
        operation = {"key": "lfsFile", "value": pointer}
    header = {"key": "header", "value": {"summary": path, "description": ""}}
    lines = "\n".join(map(json.dumps, (header, operation))).encode()
    return str(json.loads(ask(url, token, "POST", f"/api/kernels/{REPO}/commit/main", lines))["commitOid"])


def commit_until_it_dies(url: str, token: str, client: str, acknowledged: Acknowledged) -> None:
    for number in itertools.count():
        path, content = f"{client}/{number}", f"{client} {number} ".encode() * 20_000
        try:
            made = commit(url, token, path, content, lfs=number % 2 == 0)
        except (OSError, HTTPException):  # it was killed
            return
        acknowledged.files[path] = content
        acknowledged.commits.add(made)


def test_whatever_moment_a_server_is_killed_at_it_has_what_it_acknowledged(tmp_path: Path, backing: Backing) -> None:
    options = ["--root", str(tmp_path), *backing.options]
    acknowledged = Acknowledged()
    token = ""
    for round_, more in enumerate((1, 9, 16)):
        with serving(options) as (told, server):
            url, token = told["url"], told["token"] or token
            if round_ == 0:
                body = {"organization": "admin", "name": "relu", "type": "kernel"}
                ask(url, token, "POST", "/api/repos/create", body)
            names = [f"{round_}-{number}" for number in range(CLIENTS)]
            threads = [
                threading.Thread(target=commit_until_it_dies, args=(url, token, name, acknowledged)) for name in names
            ]
            for thread in threads:
                thread.start()
            wanted = len(acknowledged.files) + more
            while len(acknowledged.files) < wanted and any(thread.is_alive() for thread in threads):
                threads[0].join(0.001)
            server.send_signal(signal.SIGKILL)
            for thread in threads:
                thread.join()
            assert len(acknowledged.files) >= wanted

    with serving(options) as (told, _):
        url = told["url"]
        history = json.loads(ask(url, token, "GET", f"/api/kernels/{REPO}/commits/main?limit=1000"))
        assert acknowledged.commits <= {entry["id"] for entry in history}
        collected = subprocess.run([*PROGRAM, "gc", "--hours", "0", *options], capture_output=True, check=False)
        assert collected.returncode == 0, collected.stderr
        for path, content in acknowledged.files.items():
            assert ask(url, token, "GET", f"/kernels/{REPO}/resolve/main/{path}") == content
        tree = json.loads(ask(url, token, "GET", f"/api/kernels/{REPO}/tree/main?recursive=true"))
        for entry in tree:  # what came without being acknowledged is whole as well
            if entry["type"] == "file":
                content = ask(url, token, "GET", f"/kernels/{REPO}/resolve/main/{entry['path']}")
                client, number = entry["path"].split("/")
                assert content == f"{client} {number} ".encode() * 20_000
