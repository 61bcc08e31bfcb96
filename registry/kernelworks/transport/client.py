"""Asking one HTTP server: its token, redirections, the waits that it asks for, bounds on all that it sends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cached_property
from http.client import HTTPException, HTTPResponse
from time import monotonic, sleep, time
from typing import TypeVar
from urllib.error import URLError
from urllib.parse import unquote, urljoin
from urllib.request import Request

from kernelworks import settings
from kernelworks._version import __version__
from kernelworks.errors import TransportError
from kernelworks.model.decode import printable
from kernelworks.transport.connection import opener
from kernelworks.transport.token import token_for
from kernelworks.transport.url import origin_of

__all__ = ["Answer", "Client", "PassingFault"]

T = TypeVar("T")

_SILENCE = 10.0
"""Seconds without a byte after which a server counts as dead."""
_PAUSES = (0.2, 1.0, 3.0)
"""Seconds before the same is asked again after a passing fault."""
_LONGEST_WAIT = 60.0
"""Seconds that a server can make a load wait; one that asks for more is not obeyed, but named."""
_MAX_REDIRECTS = 5
_MAX_DOCUMENT = 32 << 20
_DOCUMENT_SECONDS = 60.0
_CHUNK = 1 << 16
_SHOWN = 200  # characters of what a server says

_REDIRECTS = {301, 302, 303, 307, 308}
_PASSING = {429, 500, 502, 503, 504}
_PARTIAL, _REFUSED = 206, 400
_SAID = ("X-Repo-Commit", "X-Kernel-Trusted", "X-Kernel-Yanked", "X-Kernel-Deprecated", "ETag", "Link")
"""Headers that count where the registry itself sends them, and not where it redirects to."""
_UNKNOWN_TOKEN = "Invalid credentials in Authorization header"  # noqa: S105  # the Hub's words, which clients compare
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)", re.ASCII)
_RESET = re.compile(r"\bt=(\d+)", re.ASCII)
"""Seconds until a quota is full again, in the `RateLimit` header (draft-ietf-httpapi-ratelimit-headers)."""


class PassingFault(Exception):  # noqa: N818  # no error yet: the same may work in a moment
    """A request that failed and may be repeated, after `wait` seconds where the server said so."""

    def __init__(self, words: str, wait: float = 0.0) -> None:
        super().__init__(words)
        self.wait = wait


@dataclass(frozen=True)
class Answer:
    """What a server answered.

    Attributes:
        url: What was asked, after redirections and without its query, which may be a secret.
        own_url: The last of them on the registry itself.
        status: Of HTTP.
        code: Why not, in one word: `X-Error-Code`, such as `RepoNotFound`; empty where there is none.
        words: Why not, in words: `X-Error-Message`, else the status; one line.
        said: Headers of the registry itself, of redirections too.
        start: Offset of the first byte in the file.
        size: Of the whole file in bytes, where the server tells.
        body: What is left to read.
    """

    url: str
    own_url: str
    status: int
    code: str
    words: str
    said: Mapping[str, str]
    start: int
    size: int | None
    body: HTTPResponse

    @property
    def commit(self) -> str:
        """Of the revision that was read; empty where the registry does not say."""
        return self.said.get("X-Repo-Commit", "")

    def notice(self, header: str) -> str | None:
        """What a header with a percent-encoded text says to people, in one line."""
        found = self.said.get(header)
        return None if found is None else printable(unquote(found)[:_SHOWN])

    def chunks(self, seconds: float) -> Iterator[bytes]:
        """The bytes as they come in, for at most `seconds`.

        Raises:
            PassingFault: The connection was cut.
            TransportError: It takes too long.
        """
        end = monotonic() + seconds
        while chunk := self._next():
            yield chunk
            if monotonic() > end:
                raise TransportError(f"`{self.url}` sends too slowly: not all has come after {seconds:.0f} s")

    def _next(self) -> bytes:
        try:
            return self.body.read1(_CHUNK)
        except (OSError, HTTPException) as error:
            raise PassingFault(f"`{self.url}`: {_reason(error)}") from error


class Client:
    """The server at `endpoint`, a URL without a slash at its end; `agent` tells it who asks, `token_for` the rest."""

    def __init__(self, endpoint: str, agent: str = "", *, named_by_file: bool = False) -> None:
        self.endpoint = endpoint
        self._named_by_file = named_by_file
        self.agent = "; ".join(filter(None, (f"kernelworks/{__version__}", agent)))

    @cached_property
    def token(self) -> str | None:
        """What proves to this server who asks, if there is anything."""
        return token_for(self.endpoint, named_by_file=self._named_by_file)

    def document(self, path: str, etag: str | None = None) -> tuple[Answer, bytes]:
        """The answer to `path`, below the endpoint, and its whole body, which need not come where it has `etag`.

        Raises:
            TransportError: There is none, or it is longer than any document of ours.
        """
        return self.patiently(lambda: self._document(path, etag))

    def patiently(self, action: Callable[[], T]) -> T:
        """What `action` returns; after a passing fault it is called again.

        Raises:
            TransportError: It fails each time, or the server asks to wait for too long.
        """
        pauses = iter(_PAUSES)
        while True:
            try:
                return action()
            except PassingFault as fault:  # noqa: PERF203  # asking costs more
                pause = next(pauses, None)
                if pause is None or fault.wait > _LONGEST_WAIT:
                    hint = f"it asks to be left alone for {fault.wait:.0f} s" if fault.wait else "try again later"
                    raise TransportError(str(fault), hint=hint, registry=self.endpoint) from fault
                sleep(max(pause, fault.wait))

    @contextmanager
    def open(self, path: str, start: int = 0, etag: str | None = None) -> Iterator[Answer]:
        """The answer to `path`, below the endpoint, from byte `start` on where the server can.

        Raises:
            PassingFault: Asking again may help.
            TransportError: Asking again does not help.
        """
        if settings.offline():
            raise TransportError(
                f"KERNELWORKS_OFFLINE or HF_HUB_OFFLINE forbids to ask registry `{self.endpoint}`",
                hint='a kernel that this machine has loaded before is found by its commit: `revision="..."`',
                registry=self.endpoint,
            )
        url = own_url = f"{self.endpoint}/{path}"
        said: dict[str, str] = {}
        for _ in range(_MAX_REDIRECTS + 1):
            with self._ask(url, start, etag) as response:
                if self._is_own(url):
                    own_url = url
                    said = {name: response.headers[name] for name in _SAID if name in response.headers} | said
                if response.status not in _REDIRECTS:
                    yield _answer(url, own_url, response, said)
                    return
                target = response.headers["Location"] or ""
            url = self._followed(url, target)
        raise TransportError(f"`{self.endpoint}/{path}` is redirected more than {_MAX_REDIRECTS} times")

    def _document(self, path: str, etag: str | None) -> tuple[Answer, bytes]:
        data = bytearray()
        with self.open(path, etag=etag) as answer:
            for chunk in answer.chunks(_DOCUMENT_SECONDS):
                data += chunk
                if len(data) > _MAX_DOCUMENT:
                    raise TransportError(
                        f"`{answer.url}` sends more than {_MAX_DOCUMENT} bytes: not a document of ours"
                    )
            if answer.size is not None and len(data) < answer.size:
                raise PassingFault(f"`{answer.url}`: the connection was cut after {len(data)} of {answer.size} bytes")
        return answer, bytes(data)

    def _ask(self, url: str, start: int, etag: str | None) -> HTTPResponse:
        headers = {"User-Agent": self.agent, "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        if etag:
            headers["If-None-Match"] = etag
        if self._is_own(url) and self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            return opener().open(Request(url, headers=headers), timeout=_SILENCE)  # type: ignore[no-any-return]  # noqa: S310  # its scheme was checked
        except (URLError, TimeoutError) as error:
            where = "" if self._is_own(url) else f"`{_shown(url)}`, where it sends to, "
            raise TransportError(
                f"registry `{self.endpoint}` cannot be reached: {where}{_reason(getattr(error, 'reason', error))}",
                hint="does it run, and does its URL say the right host and port?",
                registry=self.endpoint,
            ) from error
        except (OSError, HTTPException, ValueError) as error:
            raise PassingFault(f"`{_shown(url)}`: {_reason(error)}") from error

    def _is_own(self, url: str) -> bool:
        return origin_of(url) == origin_of(self.endpoint)

    def _followed(self, url: str, location: str) -> str:
        try:
            target = urljoin(url, location)
            scheme = origin_of(target)[0]
        except ValueError:
            scheme = ""
        if scheme not in {"http", "https"} or (scheme == "http" and origin_of(url)[0] == "https") or target == url:
            raise TransportError(
                f"`{_shown(url)}` redirects to `{_shown(printable(location))}`, which is not followed",
                registry=self.endpoint,
            )
        return target


def _answer(url: str, own_url: str, response: HTTPResponse, said: Mapping[str, str]) -> Answer:
    headers = response.headers
    words = printable((headers["X-Error-Message"] or f"{response.status} {response.reason}")[:_SHOWN])
    if response.status in _PASSING:
        raise PassingFault(f"`{_shown(url)}` answered {response.status}: {words}", _asked_wait(headers))
    if words == _UNKNOWN_TOKEN:
        raise TransportError(
            f"`{_shown(url)}` does not know the token that it was sent",
            hint="set HF_TOKEN to one of this registry, or log in again",
            url=_shown(url),
        )
    if (encoding := headers["Content-Encoding"]) not in {None, "identity"}:
        raise TransportError(
            f"`{_shown(url)}` answered in the encoding `{printable(encoding[:_SHOWN])}`, which was not asked for",
            hint="does a proxy in between compress what it hands on?",
            url=_shown(url),
        )
    if response.status < _REFUSED and headers.get_content_type() == "text/html":
        raise TransportError(
            f"`{_shown(url)}` answered with a web page",
            hint="is the URL that of a registry, and is no login page or proxy in between?",
            url=_shown(url),
        )
    start, size = 0, response.length
    if response.status == _PARTIAL and (match := _RANGE.fullmatch(headers["Content-Range"] or "")):
        start, size = int(match[1]), None if match[2] == "*" else int(match[2])
    code = headers["X-Error-Code"] or ""
    return Answer(_shown(url), _shown(own_url), response.status, code, words, said, start, size, response)


def _asked_wait(headers: Message) -> float:
    """Seconds that the server asks to wait (RFC 9110, 10.2.3), or 0."""
    after = headers["Retry-After"] or ""
    if after.isdecimal():
        return float(after)
    if reset := _RESET.search(headers["RateLimit"] or ""):
        return float(reset[1])
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time())
    except (TypeError, ValueError):
        return 0.0


def _shown(url: str) -> str:
    return url.partition("?")[0]


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no answer came in time"
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)
