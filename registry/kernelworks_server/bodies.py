"""How much of a request's body may be read: a usual limit for every route, and another where a route says so."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelworks_server.errors import TooLarge

__all__ = ["BODY_LIMIT", "BodyLimit"]

BODY_LIMIT = "kernelworks.body_limit"
"""The key of the scope under which a route puts its own limit in bytes, before it reads."""


class BodyLimit:
    """Refuses a body that announces to be, or turns out to be, larger than its route takes.

    Nothing is read before the route asks, and by then it has said how much it takes: routes are told apart only once.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, its body counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        counted = _Counted(scope, receive, self._limit)
        await self._app(scope, counted.receive, _closing(send, counted))


class _Counted:
    def __init__(self, scope: MutableMapping[str, Any], receive: Receive, limit: int) -> None:
        self._scope = scope
        self._receive = receive
        self._limit = limit
        self._read = 0
        self.refused = False

    async def receive(self) -> Message:
        limit = self._scope.get(BODY_LIMIT, self._limit)
        announced = Headers(scope=self._scope).get("content-length", "0")
        if announced.isdecimal():
            self._check(int(announced), limit)
        message = await self._receive()
        self._read += len(message.get("body", b""))
        self._check(self._read, limit)
        return message

    def _check(self, size: int, limit: int) -> None:
        if size > limit:
            self.refused = True
            raise TooLarge(f"a request to this address has at most {limit} bytes", limit=limit)


def _closing(send: Send, counted: _Counted) -> Send:
    async def forward(message: Message) -> None:
        if counted.refused and message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), (b"connection", b"close")]  # the rest is never read
        await send(message)

    return forward
