"""A client that is cheaper than any server: whole requests over kept connections, prepared once and sent again."""

from __future__ import annotations

import base64
import hashlib
import json
import selectors
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Answers", "Client", "closed_loop", "drain", "request"]

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Answers:
    """How many answers came in how many seconds, and the seconds that each was waited for."""

    seconds: float
    waits: list[float]

    @property
    def rate(self) -> float:
        return len(self.waits) / self.seconds


@dataclass
class _Asked:
    connection: socket.socket
    begun: float
    missing: int


def request(method: str, path: str) -> bytes:
    """A request on a connection that is kept."""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def closed_loop(port: int, asked: bytes, *, connections: int, seconds: float) -> Answers:
    """The same question again and again on each connection, the next one when the answer to the last one is there."""
    size = _answer_size(port, asked)
    waits: list[float] = []
    with selectors.DefaultSelector() as selector:
        begun = time.perf_counter()
        for _ in range(connections):
            connection = _connect(port)
            selector.register(connection, selectors.EVENT_READ, _Asked(connection, time.perf_counter(), size))
            connection.sendall(asked)
        while (now := time.perf_counter()) < begun + seconds:
            for key, _ in selector.select(timeout=1):
                state = key.data
                connection = state.connection
                state.missing -= len(connection.recv(min(state.missing, _BLOCK)))
                if not state.missing:
                    now = time.perf_counter()
                    waits.append(now - state.begun)
                    state.begun, state.missing = now, size
                    connection.sendall(asked)
        for key in list(selector.get_map().values()):
            key.data.connection.close()
    return Answers(now - begun, waits)


def drain(port: int, asked: bytes, times: int) -> int:
    """The bytes of so many answers, read one after the other on one connection and thrown away."""
    size = 0
    buffer = bytearray(_BLOCK)
    with _connect(port) as connection:
        for _ in range(times):
            connection.sendall(asked)
            left = size = _header(connection, asked)[1]
            while left:
                left -= connection.recv_into(buffer, min(left, _BLOCK))
    return size * times


def _answer_size(port: int, asked: bytes) -> int:
    with _connect(port) as connection:
        connection.sendall(asked)
        return sum(_header(connection, asked))


def _header(connection: socket.socket, asked: bytes) -> tuple[int, int]:
    """(size of the header of an answer, of its body), of which only the header is read."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, "the server hung up"
        head += byte
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    return len(head), 0 if asked.startswith(b"HEAD") else length


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@dataclass(frozen=True)
class Client:
    """Speaks the Hub's protocol as stock clients do, with a token, to one kernel."""

    port: int
    token: str
    repo_id: str

    def ask(self, method: str, path: str, body: bytes | Mapping[str, Any] | None = None) -> Any:
        """The answer to one request, as JSON where there is one."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, data, {"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            content = answer.read()
        assert answer.status == 200, (path, answer.status, content)
        return json.loads(content) if content else None

    def create(self) -> None:
        """Make the repository."""
        organization, name = self.repo_id.split("/")
        self.ask("POST", "/api/repos/create", {"organization": organization, "name": name, "type": "kernel"})

    def branch(self, name: str) -> None:
        """Make a branch at the head of `main`."""
        self.ask("POST", f"/api/kernels/{self.repo_id}/branch/{name}", {})

    def inline(self, path: str, content: bytes) -> dict[str, Any]:
        """The line of a commit that brings this file along."""
        encoded = base64.b64encode(content).decode()
        return {"key": "file", "value": {"path": path, "content": encoded, "encoding": "base64"}}

    def upload(self, path: str, content: bytes) -> dict[str, Any]:
        """The line of a commit that names this file, which is sent by Git LFS before."""
        oid, size = hashlib.sha256(content).hexdigest(), len(content)
        wanted = {"operation": "upload", "objects": [{"oid": oid, "size": size}]}
        batch = self.ask("POST", f"/kernels/{self.repo_id}.git/info/lfs/objects/batch", wanted)
        if "actions" in batch["objects"][0]:
            href = urlsplit(batch["objects"][0]["actions"]["upload"]["href"])
            self.ask("PUT", f"{href.path}?{href.query}", content)
        return {"key": "lfsFile", "value": {"path": path, "algo": "sha256", "oid": oid, "size": size}}

    def commit(self, *lines: Mapping[str, Any], branch: str = "main") -> str:
        """The id of the commit that does what the lines say."""
        header = {"key": "header", "value": {"summary": "a commit", "description": ""}}
        body = "\n".join(map(json.dumps, (header, *lines))).encode()
        return str(self.ask("POST", f"/api/kernels/{self.repo_id}/commit/{branch}", body)["commitOid"])
