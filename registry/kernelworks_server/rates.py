"""How often one asker may ask: as many requests as a window has, refilled evenly, for each token or else address.

Bytes have a quota of their own, so that a large upload does not use up the one of questions, and the other way round.
"""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network, ip_address

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from kernelworks_server.config import Limits, Rate
from kernelworks_server.credentials import bearer_of
from kernelworks_server.errors import InvalidToken, TooManyRequests
from kernelworks_server.people import People
from kernelworks_server.tokens import secret_digest

__all__ = ["Buckets", "RateLimit", "neighbourhood", "quota_of"]

_ASKERS = 100_000  # that are remembered; the one that was quiet for longest is forgotten, and starts anew
_FREE = frozenset({"/healthz"})
_FILES = re.compile(r"/xet/.+|/api/lfs/.+|(/kernels|/models)?/[^/]+/[^/]+/resolve/.+|/simple/files/.+|/static/.+")
_IPV6_SITE = 64  # bits that one subscriber has no choice of; all others are theirs to change with every request


class Buckets:
    """A bucket of requests for each asker, kept as the one moment when it is full again."""

    def __init__(self, rate: Rate, askers: int = _ASKERS) -> None:
        self._rate = rate
        self._askers = askers
        self._full: OrderedDict[str, float] = OrderedDict()

    def __contains__(self, asker: str) -> bool:
        return asker in self._full

    def __len__(self) -> int:
        return len(self._full)

    def take(self, asker: str, now: float) -> float:
        """0, and one request is taken from the asker's bucket; or the seconds until there is one again."""
        full = max(self._full.get(asker, now), now) + self._rate.seconds / self._rate.requests
        wait = full - now - self._rate.seconds
        if wait > 1e-9 * self._rate.seconds:  # sums of fractions are not exact
            return wait
        self._full[asker] = full
        self._full.move_to_end(asker)
        if len(self._full) > self._askers:
            self._full.popitem(last=False)
        return 0.0


class RateLimit:
    """Refuses, with 429 and the seconds to wait, what goes beyond the quota of who asks.

    A token has a bucket of its own once the registry knows it; an invented one is charged to the address it comes from.
    """

    def __init__(
        self, app: ASGIApp, people: People, limits: Limits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._people = people
        self._clock = clock
        rates = {"api": limits.api, "files": limits.files}
        self._quotas = {name: (rate, Buckets(rate)) for name, rate in rates.items() if rate.requests}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before anything of it is read."""
        name = quota_of(scope["raw_path"].decode("latin-1")) if scope["type"] == "http" else None
        if name is None or name not in self._quotas:
            await self._app(scope, receive, send)
            return
        rate, buckets = self._quotas[name]
        wait = buckets.take(await self._asker(scope, buckets), self._clock())
        if not wait:
            await self._app(scope, receive, send)
            return
        status, headers, body = TooManyRequests(
            name, requests=rate.requests, seconds=rate.seconds, wait=math.ceil(wait)
        ).http()
        await JSONResponse(body, status, headers)(scope, receive, send)

    async def _asker(self, scope: Scope, buckets: Buckets) -> str:
        if token := bearer_of(Headers(scope=scope)):
            asker = f"token {secret_digest(token)}"
            if asker in buckets or await to_thread.run_sync(self._knows, token):
                return asker
        return f"address {neighbourhood(scope['client'][0] if scope.get('client') else '')}"

    def _knows(self, token: str) -> bool:
        try:
            self._people.actor(token)
        except InvalidToken:
            return False
        return True


def quota_of(path: str) -> str | None:
    """Which quota a request to this raw path counts against: `files` where it moves bytes; None: against none."""
    if path in _FREE:
        return None
    return "files" if _FILES.fullmatch(path) else "api"


def neighbourhood(address: str) -> str:
    """The addresses that count as one asker: the address itself, or the network of an IPv6 subscriber."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((int(parsed), _IPV6_SITE), strict=False))
