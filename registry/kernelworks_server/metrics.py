"""What a registry counts about itself, in the text format of Prometheus (version 0.0.4).

Operators read it, and programs on the same machine: it tells how much is there and how it is used.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import accumulate

from sqlalchemy import func, select
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelworks._version import __version__
from kernelworks_server.credentials import bearer_of
from kernelworks_server.database.engine import Database
from kernelworks_server.database.tables import blobs, repos
from kernelworks_server.errors import Forbidden, SignInRequired
from kernelworks_server.people import People

__all__ = ["MEDIA_TYPE", "Counting", "Counts", "Family", "admit", "downloaded", "exposition", "stock"]

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_NONE = "none"
_BROKEN = 500  # what the server answers for an application that failed before it did
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True)
class Family:
    """One metric: its name, its type (`counter`, `gauge`, `histogram`), what it tells, and its samples.

    A sample is (suffix of the name, labels, value).
    """

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[str, Mapping[str, str], float]]


@dataclass
class _Times:
    """How long requests took: how many up to each bound, the rest behind the last, and all seconds together."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds += seconds

    def samples(self, labels: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
        names = [*(f"{bound:g}" for bound in _BOUNDS), "+Inf"]
        for name, count in zip(names, accumulate(self.counts), strict=True):
            yield "_bucket", {**labels, "le": name}, count
        yield "_sum", labels, self.seconds
        yield "_count", labels, sum(self.counts)


class Counts:
    """What was counted since the start; written and read in the event loop only."""

    def __init__(self) -> None:
        self.running = 0
        self.received = 0
        self.sent = 0
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._times: defaultdict[str, _Times] = defaultdict(_Times)

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request to a route, which is told by its template: addresses are without number."""
        self._requests[method if method in _METHODS else "other", route, status] += 1
        self._times[route].add(seconds)

    def families(self) -> list[Family]:
        """All of it, as metrics."""
        requests = [
            ("", {"method": method, "route": route, "status": str(status)}, count)
            for (method, route, status), count in sorted(self._requests.items())
        ]
        times = [sample for route, took in sorted(self._times.items()) for sample in took.samples({"route": route})]
        return [
            Family("kernel_registry_requests_total", "counter", "Requests that were answered.", requests),
            Family("kernel_registry_request_seconds", "histogram", "Until an answer was out.", times),
            Family("kernel_registry_requests_running", "gauge", "Requests at work.", _plain(self.running)),
            Family("kernel_registry_received_bytes_total", "counter", "Of request bodies.", _plain(self.received)),
            Family("kernel_registry_sent_bytes_total", "counter", "Of response bodies.", _plain(self.sent)),
            Family("kernel_registry_info", "gauge", "The version that runs.", _plain(1, version=__version__)),
        ]


class Counting:
    """Counts every request when its answer is out, or when it broke off."""

    def __init__(self, app: ASGIApp, counts: Counts, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._counts = counts
        self._templates = {getattr(route, "endpoint", None): getattr(route, "path_format", _NONE) for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        counts, status = self._counts, _BROKEN

        async def watch_body() -> Message:
            message = await receive()
            counts.received += len(message.get("body", b""))
            return message

        async def watch(message: Message) -> None:
            nonlocal status
            await send(message)
            status = message.get("status", status)
            counts.sent += len(message.get("body", b""))

        counts.running += 1
        begun = time.perf_counter()
        try:
            await self._app(scope, watch_body, watch)
        finally:
            counts.running -= 1
            route = self._templates.get(scope.get("endpoint"), _NONE)
            counts.add(scope["method"], route, status, time.perf_counter() - begun)


def stock(database: Database) -> list[Family]:
    """How much the registry holds, as metrics; every blob is one, whoever refers to it."""
    with database.read() as connection:
        kinds = connection.execute(select(repos.c.kind, func.count()).group_by(repos.c.kind).order_by(repos.c.kind))
        numbers = [("", {"kind": kind}, count) for kind, count in kinds]
        count, size = connection.execute(select(func.count(), func.coalesce(func.sum(blobs.c.size), 0))).one()
    return [
        Family("kernel_registry_repositories", "gauge", "Repositories, private ones too.", numbers),
        Family("kernel_registry_blobs", "gauge", "Files that differ.", _plain(count)),
        Family("kernel_registry_blob_bytes", "gauge", "Of these files.", _plain(int(size))),
    ]


def downloaded(count: int) -> Family:
    """How many variants were downloaded since this process began, as a metric."""
    return Family("kernel_registry_downloads_total", "counter", "Variants, whole or begun.", _plain(count))


def admit(request: Request, people: People) -> None:
    """Nothing, if who asks may read the metrics: an operator, or a program on this machine.

    What a proxy on this machine passes on comes from elsewhere.

    Raises:
        InvalidToken: The token is unknown, revoked or expired.
        SignInRequired: It comes from elsewhere and shows no token.
        Forbidden: The token is no operator's of scope `admin`.
    """
    if token := bearer_of(request.headers):
        if not people.actor(token).operates:
            raise Forbidden("the metrics are for operators of this registry", hint="show a token of scope `admin`")
    elif not _on_this_machine(request.client.host if request.client else "", request.headers):
        raise SignInRequired("the metrics are for operators of this registry", hint="show a token of scope `admin`")


def _on_this_machine(address: str, headers: Headers) -> bool:
    try:
        return ip_address(address).is_loopback and not any(name in headers for name in _FORWARDED)
    except ValueError:
        return False


def exposition(families: Iterable[Family]) -> str:
    """The metrics as Prometheus reads them."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind}"
    for suffix, labels, value in family.samples:
        told = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
        yield f"{family.name}{suffix}{f'{{{told}}}' if told else ''} {_number(value)}"


def _number(value: float) -> str:
    return f"{value:d}" if isinstance(value, int) else repr(value)


def _plain(value: float, **labels: str) -> list[tuple[str, Mapping[str, str], float]]:
    return [("", labels, value)]
