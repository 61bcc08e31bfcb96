"""Asking one HTTP server: its token, redirections, the waits that it asks for, bounds on all that it sends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cached_property
from http.client import HTTPException, HTTPResponse
from time import monotonic, sleep, time
from typing import TypeVar
from urllib.error import URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPErrorProcessor, HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from kernelworks import settings
from kernelworks._version import __version__
from kernelworks.errors import TransportError, UsageError
from kernelworks.model.decode import printable

__all__ = ["Answer", "Client", "PassingFault", "origin_of", "token_for"]

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
_OK, _PARTIAL, _REFUSED = 200, 206, 400
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
        status: Of HTTP.
        code: Why not, in one word: `X-Error-Code`, such as `RepoNotFound`; empty where there is none.
        words: Why not, in words: `X-Error-Message`, else the status; one line.
        commit: Of the revision that was read: `X-Repo-Commit`, as the registry itself says it.
        start: Offset of the first byte in the file.
        size: Of the whole file in bytes, where the server tells.
        body: What is left to read.
    """

    url: str
    status: int
    code: str
    words: str
    commit: str | None
    start: int
    size: int | None
    body: HTTPResponse

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


class _AnyStatus(HTTPErrorProcessor):
    """Hands every answer on, whatever its status: redirections are followed here."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002
        return response

    https_response = http_response


class Client:
    """The server at `endpoint`, a URL without a slash at its end."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    @cached_property
    def token(self) -> str | None:
        """What proves to this server who asks, if there is anything."""
        return token_for(self.endpoint)

    @cached_property
    def _opener(self) -> OpenerDirector:
        opener = OpenerDirector()
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), _AnyStatus()):
            opener.add_handler(handler)
        return opener

    def document(self, path: str) -> tuple[Answer, bytes]:
        """The answer to `path`, below the endpoint, and its whole body.

        Raises:
            TransportError: There is none, or it is longer than any document of ours.
        """
        return self.patiently(lambda: self._document(path))

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
    def open(self, path: str, start: int = 0) -> Iterator[Answer]:
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
        url = f"{self.endpoint}/{path}"
        commit = None
        for _ in range(_MAX_REDIRECTS + 1):
            with self._ask(url, start) as response:
                if self._is_own(url):
                    commit = commit or response.headers["X-Repo-Commit"]
                if response.status not in _REDIRECTS:
                    yield _answer(url, response, commit)
                    return
                target = response.headers["Location"] or ""
            url = self._followed(url, target)
        raise TransportError(f"`{self.endpoint}/{path}` is redirected more than {_MAX_REDIRECTS} times")

    def _document(self, path: str) -> tuple[Answer, bytes]:
        data = bytearray()
        with self.open(path) as answer:
            for chunk in answer.chunks(_DOCUMENT_SECONDS):
                data += chunk
                if len(data) > _MAX_DOCUMENT:
                    raise TransportError(
                        f"`{answer.url}` sends more than {_MAX_DOCUMENT} bytes: not a document of ours"
                    )
            if answer.size is not None and len(data) < answer.size:
                raise PassingFault(f"`{answer.url}`: the connection was cut after {len(data)} of {answer.size} bytes")
        return answer, bytes(data)

    def _ask(self, url: str, start: int) -> HTTPResponse:
        headers = {"User-Agent": f"kernelworks/{__version__}", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        if self._is_own(url) and self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            return self._opener.open(Request(url, headers=headers), timeout=_SILENCE)  # type: ignore[no-any-return]  # noqa: S310  # its scheme was checked
        except URLError as error:
            raise TransportError(
                f"registry `{self.endpoint}` cannot be reached: {_reason(error.reason)}"
                if self._is_own(url)
                else f"`{_shown(url)}`, where registry `{self.endpoint}` sends to, cannot be reached: "
                f"{_reason(error.reason)}",
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


def token_for(endpoint: str) -> str | None:
    """The token that huggingface_hub finds (HF_TOKEN, the file of `hf auth login`), if it is for `endpoint`.

    One of the public Hub (`hf_...`) is for the endpoint that huggingface_hub itself talks to, and goes nowhere else.

    Raises:
        UsageError: It cannot be sent.
    """
    from huggingface_hub import constants, get_token  # noqa: PLC0415  # slow, and needed before a request only

    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    if token is None or (token.startswith("hf_") and origin_of(endpoint) != origin_of(constants.ENDPOINT)):
        return None
    if not (token.isascii() and token.isprintable()):
        raise UsageError("the token holds characters that no token has", hint="look at HF_TOKEN, or log in again")
    return token


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of `url`: what shares them is one server.

    Raises:
        ValueError: It is no URL.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _answer(url: str, response: HTTPResponse, commit: str | None) -> Answer:
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
    if response.status < _REFUSED and headers.get_content_type() == "text/html":
        raise TransportError(
            f"`{_shown(url)}` answered with a web page",
            hint="is the URL that of a registry, and is no login page or proxy in between?",
            url=_shown(url),
        )
    start, size = 0, response.length
    if response.status == _PARTIAL and (match := _RANGE.fullmatch(headers["Content-Range"] or "")):
        start, size = int(match[1]), None if match[2] == "*" else int(match[2])
    return Answer(_shown(url), response.status, headers["X-Error-Code"] or "", words, commit, start, size, response)


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
        return f"no answer within {_SILENCE:.0f} s"
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)
