"""How a request reaches its handler: routed on the raw path, its body limited and spooled, its work in a thread.

Handlers are plain synchronous functions of a `Call`, so that no database or file access can happen in the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO
from urllib.parse import quote, unquote_to_bytes, urlencode, urlsplit

from anyio import to_thread
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from kernelworks.errors import RepositoryError
from kernelworks.model.decode import Node, parse_json
from kernelworks_server.bodies import BODY_LIMIT
from kernelworks_server.credentials import bearer_of
from kernelworks_server.errors import BadRequest, RepoMoved, ServerError
from kernelworks_server.once import once
from kernelworks_server.records import DEFAULT_BRANCH, Repo, Revision
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services
from kernelworks_server.sessions import COOKIE

__all__ = ["Call", "Endpoint", "HubRoute", "next_link", "usual"]

_BLOCK = 1 << 20  # bytes of a body that are held in memory
_KINDS = "kernels|models"


@dataclass(frozen=True)
class Call:
    """One request, as a handler sees it.

    Attributes:
        fields: The decoded variable parts of the path, by their names in the endpoint's template.
        path: The path as it was sent.
        base: The address that the client is told to come back to; no slash at the end.
        body: The whole body, at its start; empty while the call is not admitted, and where it brings none.
        session: That of the browser that asks, where the endpoint is for browsers too.
    """

    services: Services
    method: str
    fields: dict[str, str]
    path: str
    query: QueryParams
    headers: Headers
    base: str
    body: IO[bytes]
    session: str | None

    @once
    def bearer(self) -> str | None:
        """The token of the `Authorization` header."""
        return bearer_of(self.headers)

    @once
    def actor(self) -> Actor:
        """Who asks: by a token, or else by a session; the anonymous actor where neither was sent."""
        if self.bearer is None:
            return self.services.sessions.actor(self.session)
        return self.services.people.actor(self.bearer)

    @property
    def kind(self) -> str:
        """The kind of repository that the path speaks of; models are those without a prefix."""
        return self.fields.get("kinds", "models").removesuffix("s")

    @once
    def repo(self) -> Repo:
        """The repository of the path, if the actor may know of it."""
        repo_id = f"{self.fields['org']}/{self.fields['name']}"
        return self.services.repositories.get(self.actor, self.kind, repo_id)

    @once
    def at(self) -> Revision:
        """What the path's revision, or else `main`, means in its repository, if the actor may know of that."""
        repo_id = f"{self.fields['org']}/{self.fields['name']}"
        return self.services.repositories.at(
            self.actor, self.kind, repo_id, self.fields.get("revision", DEFAULT_BRANCH)
        )

    def writable(self) -> Repo:
        """The repository of the path, if the actor may write to it."""
        self.services.repositories.require(self.actor, "write", self.repo)
        return self.repo

    def json(self) -> Node:
        """The body as JSON; an empty one is an empty object."""
        return parse_json(self.body.read() or b"{}", "the body")

    def blocks(self) -> Iterator[bytes]:
        """The body from its start, in blocks."""
        self.body.seek(0)
        return iter(lambda: self.body.read(_BLOCK), b"")


def usual(call: Call) -> int:
    """Admits a body of the usual length."""
    return call.services.config.limits.body


def next_link(call: Call, cursor: str | None) -> dict[str, str]:
    """The header that leads to the page behind `cursor`; none after the last one."""
    if cursor is None:
        return {}
    kept = [(name, value) for name, value in call.query.multi_items() if name != "cursor"]
    address = f"{call.base}{quote(call.path, safe='/%')}?{urlencode([*kept, ('cursor', cursor)])}"
    return {"Link": f'<{address}>; rel="next"'}


@dataclass(frozen=True)
class Endpoint:
    """Some methods on one path.

    Attributes:
        methods: Separated by blanks.
        template: The path, undecoded. `{name}` is one segment, `{name...}` the rest, `{kinds}` kernels or models;
            `[...]` may be missing. `{org}/{name}` is a repository; by a name that it had before, the client is sent on.
        answer: The handler; runs in a worker thread.
        browsers: Whether people who are signed in on the pages are known here by that; only where nothing changes.
        admit: Says how many bytes the body may have, or refuses the call, before any of them is read; None: no body.
    """

    methods: str
    template: str
    answer: Callable[[Call], Response]
    admit: Callable[[Call], int] | None = None
    browsers: bool = False


class HubRoute(BaseRoute):
    """An endpoint as a route of Starlette that matches the path as it was sent.

    Revisions and tree paths arrive with their slashes encoded (`v1%2Frc`), which a decoded path no longer shows.
    """

    def __init__(self, endpoint: Endpoint, services: Services) -> None:
        self.endpoint = endpoint  # by these three names, routes of Starlette tell theirs as well
        self.path_format = endpoint.template
        self.methods = frozenset(endpoint.methods.split())
        self._services = services
        self._pattern = _pattern(endpoint.template)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the path, or path and method, are this endpoint's."""
        if scope["type"] != "http":
            return Match.NONE, {}
        found = self._pattern.fullmatch(scope["raw_path"].decode("latin-1"))
        if found is None:
            return Match.NONE, {}
        fields = {name: text for name, text in found.groupdict().items() if text is not None}
        match = Match.FULL if scope["method"] in self.methods else Match.PARTIAL
        return match, {"hub_fields": fields, "endpoint": self.endpoint}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, refusals included."""
        if scope["method"] not in self.methods:
            raise HTTPException(405)  # `app` says which methods the address has: routes of others may match it too
        response = await self._guarded(Request(scope, receive))
        await response(scope, receive, send)

    async def _guarded(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except RepoMoved as moved:
            return self._send_on(request, moved) or _refusal(moved)
        except ServerError as error:
            return _refusal(error)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except RepositoryError as error:  # what `Node` says of malformed JSON
            return _refusal(BadRequest(error.message))

    def _send_on(self, request: Request, moved: RepoMoved) -> Response | None:
        """To the same place of the repository under its present name, with method, query and body; None if not in it.

        The address has no host: to such ones every client goes with its token.
        """
        path, query = (request.scope[part].decode("latin-1") for part in ("raw_path", "query_string"))
        found = self._pattern.fullmatch(path)
        if found is None or not {"org", "name"} <= found.groupdict().keys():
            return None
        prefix = urlsplit(self._services.config.base_url or "").path
        address = f"{prefix}{path[: found.start('org')]}{moved.repo_id}{path[found.end('name') :]}"
        return Response(status_code=307, headers={"Location": f"{address}?{query}" if query else address})

    async def _answer(self, request: Request) -> Response:
        admit, answer = self.endpoint.admit, self.endpoint.answer
        if admit is None:
            return await to_thread.run_sync(answer, self._call(request, BytesIO()))
        spool = SpooledTemporaryFile(max_size=_BLOCK, dir=str(self._services.config.root))  # noqa: SIM115  # see below
        try:
            call = self._call(request, spool)
            request.scope[BODY_LIMIT] = await to_thread.run_sync(admit, call)
            await _read(request, spool)
            return await to_thread.run_sync(answer, call)
        finally:
            await to_thread.run_sync(spool.close)  # to give gigabytes back takes the disk its time

    def _call(self, request: Request, body: IO[bytes]) -> Call:
        if not all(value.isprintable() for _, value in request.query_params.multi_items()):
            raise BadRequest("the query holds characters that cannot be printed")
        address = f"{request.url.scheme}://{request.headers.get('host', request.url.netloc)}"
        return Call(
            services=self._services,
            method=request.method,
            fields={name: _decoded(text) for name, text in request.scope["hub_fields"].items()},
            path=request.scope["raw_path"].decode("latin-1"),
            query=request.query_params,
            headers=request.headers,
            base=self._services.config.base_url or address,
            body=body,
            session=request.cookies.get(COOKIE) if self.endpoint.browsers else None,
        )


def _pattern(template: str) -> re.Pattern[str]:
    expression = re.escape(template).replace(r"\[", "(?:").replace(r"\]", ")?")
    expression = expression.replace(r"\{kinds\}", f"(?P<kinds>{_KINDS})")
    expression = re.sub(r"\\\{(\w+)(?:\\\.){3}\\\}", r"(?P<\1>.+)", expression)
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+?)", expression))


def _decoded(text: str) -> str:
    try:
        decoded = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("the path is not UTF-8") from error
    if not decoded.isprintable():
        raise BadRequest("the path holds characters that cannot be printed")
    return decoded


async def _read(request: Request, spool: IO[bytes]) -> None:
    """The body of `request`, whose limit is set, into `spool`; the disk is waited for in threads."""
    pending = bytearray()
    async for block in request.stream():
        pending += block
        if len(pending) >= _BLOCK:
            await to_thread.run_sync(spool.write, bytes(pending))
            pending.clear()
    await to_thread.run_sync(spool.write, bytes(pending))
    spool.seek(0)


def _refusal(error: ServerError) -> Response:
    status, headers, body = error.http()
    return JSONResponse(body, status, headers)
