"""One line of JSON per request, for people and for machines: what was asked, what came out, how long it took.

Query strings and headers are left out: signatures and tokens travel in them.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["JsonLines", "RequestLog"]

_LOGGER = logging.getLogger("kernelworks_server.requests")


class RequestLog:
    """Logs every request when its answer is out, or when it broke off (status 0: before it was begun)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and log it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        facts: dict[str, Any] = {
            "method": scope["method"],
            "path": scope["raw_path"].decode("latin-1"),
            "status": 0,
            "bytes": 0,
            "client": scope["client"][0] if scope.get("client") else None,
        }

        async def watch(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                facts["status"] = message["status"]
            facts["bytes"] += len(message.get("body", b""))

        begun = time.perf_counter()
        try:
            await self._app(scope, receive, watch)
        finally:
            facts["ms"] = round((time.perf_counter() - begun) * 1_000, 1)
            _LOGGER.info("request", extra={"facts": facts})


class JsonLines(logging.Formatter):
    """Every record as one line of JSON; the facts of a request as its members."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)
