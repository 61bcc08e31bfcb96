"""How much of a body is read: never more than the route takes, and nothing of one that announces more."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from kernelworks_server.bodies import BODY_LIMIT, BodyLimit
from kernelworks_server.errors import TooLarge

LIMIT = 10


class Client:
    """Sends a body in parts and counts how many of them were taken."""

    def __init__(self, parts: Iterable[bytes], length: str | None = None) -> None:
        self.parts = iter(parts)
        self.taken = 0
        self.answer: dict[str, Any] = {}
        headers = [] if length is None else [(b"content-length", length.encode())]
        self.scope: Scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}

    async def receive(self) -> Message:
        part = next(self.parts, b"")
        self.taken += bool(part)
        return {"type": "http.request", "body": part, "more_body": bool(part)}

    async def send(self, message: Message) -> None:
        self.answer |= message

    def ask(self, *, own_limit: int | None = None) -> None:
        async def route(scope: Scope, receive: Receive, send: Send) -> None:
            if own_limit is not None:
                scope[BODY_LIMIT] = own_limit
            try:
                response = PlainTextResponse(str(len(await Request(scope, receive).body())))
            except TooLarge as error:
                response = PlainTextResponse("too large", error.status)
            await response(scope, receive, send)

        asyncio.run(BodyLimit(route, LIMIT)(self.scope, self.receive, self.send))


def test_a_body_within_the_limit_arrives() -> None:
    client = Client([b"12345", b"67890"], "10")
    client.ask()
    assert (client.answer["status"], client.answer["body"]) == (200, b"10")


def test_a_body_that_announces_more_is_refused_before_a_byte_is_read() -> None:
    client = Client([b"12345"] * 3, "15")
    client.ask()
    assert (client.answer["status"], client.taken) == (413, 0)
    assert (b"connection", b"close") in client.answer["headers"]


@pytest.mark.parametrize("length", [None, "5", "-1", "many"])
def test_an_endless_body_is_refused_at_the_limit_whatever_it_announces(length: str | None) -> None:
    client = Client((b"12345" for _ in range(1_000)), length)
    client.ask()
    assert (client.answer["status"], client.taken) == (413, 3)


@pytest.mark.parametrize(("own_limit", "status"), [(15, 200), (14, 413), (0, 413)])
def test_a_route_may_take_more_or_less(own_limit: int, status: int) -> None:
    client = Client([b"12345"] * 3, "15")
    client.ask(own_limit=own_limit)
    assert client.answer["status"] == status


def test_a_running_registry_refuses_a_huge_body_while_the_client_still_waits_to_send_it(server: Any) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(b"POST /api/validate-yaml HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4_096), b""))  # to the end: the connection is closed
    status, _, rest = answer.partition(b"\r\n")
    assert status.startswith(b"HTTP/1.1 413")
    assert b"at most 1048576 bytes" in rest
