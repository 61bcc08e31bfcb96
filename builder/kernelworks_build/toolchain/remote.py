"""Bytes behind a URL, from an offset on: http, https and file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO
from urllib.parse import urlsplit
from urllib.request import url2pathname

import requests

from kernelworks.settings import offline

__all__ = ["Body", "Remote", "RemoteError", "shown", "site"]

_CHUNK = 1 << 16
_TIMEOUT = (15, 60)  # seconds: to connect, and between two chunks
_OK, _PARTIAL = 200, 206
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class RemoteError(Exception):
    """A URL that gives nothing.

    Args:
        reason: Why, in a few words.
        lasting: Whether asking again would give the same.
        asked: Whether anybody answered: without an answer nothing is known of what is there.
    """

    def __init__(self, reason: str, *, lasting: bool, asked: bool = True) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.asked = asked


@dataclass(frozen=True)
class Body:
    """An answer as it comes in.

    Attributes:
        url: Where it came from after redirections.
        kind: Its media type; empty for a local file.
        start: Offset of its first byte in the file.
        ranged: Whether it is the range that was asked for; servers may ignore ranges and give all.
        total: Size of the whole file in bytes, where the server tells.
        chunks: The bytes, of which reading may raise `RemoteError`.
    """

    url: str
    kind: str
    start: int
    ranged: bool
    total: int | None
    chunks: Iterator[bytes]


class Remote:
    """A reader of URLs with pooled connections.

    Args:
        certificate: CA bundle, or None for the usual one.
        proxy: URL of the proxy, or None for those of the environment.
    """

    def __init__(self, certificate: str | None = None, proxy: str | None = None) -> None:
        self._how: dict[str, Any] = {
            "proxies": {"http": proxy, "https": proxy} if proxy else None,  # of the request: a session's come last
            "stream": True,
            "timeout": _TIMEOUT,
            "verify": certificate or True,
        }
        self._lost: dict[str, RemoteError] = {}
        self._session = requests.Session()
        self._session.headers["Accept-Encoding"] = "identity"

    def __enter__(self) -> Remote:  # noqa: PYI034  # `Self` is of Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    @contextmanager
    def open(self, url: str, *, start: int = 0, stop: int | None = None, accept: str = "*/*") -> Iterator[Body]:
        """The file at `url`, from byte `start` to before byte `stop` where the server can.

        Raises:
            RemoteError: No such file, no such server, or an answer that is none.
        """
        if urlsplit(url).scheme == "file":
            with _open_file(url, start, stop) as body:
                yield body
            return
        if offline():
            raise RemoteError("KERNELWORKS_OFFLINE forbids the network", lasting=True, asked=False)
        if lost := self._lost.get(site(url)):
            raise lost
        headers = {"Accept": accept}
        if start or stop is not None:
            headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        try:
            with self._session.get(url, headers=headers, **self._how) as answer:
                yield _body(answer)
        except requests.RequestException as error:
            raise RemoteError(
                _reason(error), lasting=isinstance(error, _LASTING), asked=not isinstance(error, _UNASKED)
            ) from error

    def give_up(self, url: str, error: RemoteError) -> None:
        """Answer with `error` from now on, for everything on the site of `url`."""
        self._lost[site(url)] = RemoteError(str(error), lasting=True, asked=error.asked)

    def put(self, url: str, path: Path) -> bool:
        """Store the file at `path` under `url` (HTTP PUT) unless there is one; whether there was none.

        Raises:
            RemoteError: No such server, or it refuses.
        """
        if offline():
            raise RemoteError("KERNELWORKS_OFFLINE forbids the network", lasting=True, asked=False)
        how = self._how | {"stream": False}
        try:
            if self._session.head(url, **how).status_code == _OK:
                return False
            with path.open("rb") as content:
                answer = self._session.put(url, data=content, **how)
        except requests.RequestException as error:
            raise RemoteError(_reason(error), lasting=True, asked=not isinstance(error, _UNASKED)) from error
        if not answer.ok:
            raise RemoteError(f"{answer.status_code} {answer.reason}".strip(), lasting=True)
        return True

    def read(self, url: str, start: int, stop: int) -> bytes | None:
        """Bytes `start` to before `stop` of the file at `url`, or None where the server ignores ranges.

        Raises:
            RemoteError: As `open`, or fewer or more bytes than asked for.
        """
        with self.open(url, start=start, stop=stop) as body:
            if not body.ranged:
                return None
            data = bytearray()
            for chunk in body.chunks:
                data += chunk
                if len(data) > stop - start:
                    break
        if len(data) != stop - start:
            raise RemoteError(f"did not give the {stop - start} bytes asked for", lasting=False)
        return bytes(data)


def shown(url: str) -> str:
    """`url` for a message: without a password."""
    return re.sub(r"//[^/@]+@", "//***@", url)


def site(url: str) -> str:
    """The server that answers for `url`, for a message; `url` itself where it names none."""
    parts = urlsplit(url)
    return shown(f"{parts.scheme}://{parts.netloc}" if parts.netloc else url)


@contextmanager
def _open_file(url: str, start: int, stop: int | None) -> Iterator[Body]:
    path = Path(url2pathname(urlsplit(url).path))
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            size = path.stat().st_size
            left = (size if stop is None else min(stop, size)) - start
            yield Body(url, "", start, True, size, _pieces(stream, left))
    except OSError as error:
        raise RemoteError(error.strerror or str(error), lasting=True) from error


def _pieces(stream: BinaryIO, left: int) -> Iterator[bytes]:
    while left > 0 and (chunk := stream.read(min(_CHUNK, left))):
        left -= len(chunk)
        yield chunk


def _body(answer: requests.Response) -> Body:
    chunks: Iterator[bytes] = answer.iter_content(_CHUNK)
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    if answer.status_code == _PARTIAL and (match := _RANGE.fullmatch(answer.headers.get("Content-Range", ""))):
        total = None if match[2] == "*" else int(match[2])
        return Body(answer.url, kind, int(match[1]), True, total, chunks)
    if answer.status_code != _OK:
        reason = f"{answer.status_code} {answer.reason}".strip()
        raise RemoteError(reason, lasting=answer.status_code not in _TRANSIENT)
    length = answer.headers.get("Content-Length", "")
    return Body(answer.url, kind, 0, False, int(length) if length.isdecimal() else None, chunks)


def _reason(error: requests.RequestException) -> str:
    for kind, words in _REASONS.items():
        if isinstance(error, kind):
            return words
    return _system_words(error) or "no connection"


def _system_words(error: BaseException | None) -> str | None:
    """What the system said of a connection, below what libraries made of it."""
    while error:
        if isinstance(error, OSError) and error.strerror:
            return error.strerror.lower()
        error = error.__cause__ or error.__context__
    return None


_LASTING = (requests.exceptions.SSLError, ValueError)  # what is said of a bad URL is a ValueError
_UNASKED = (requests.exceptions.ConnectionError, ValueError)
_REASONS: dict[type[requests.RequestException], str] = {
    requests.exceptions.SSLError: "its certificate is not trusted",
    requests.exceptions.ProxyError: "the proxy gives no connection",
    requests.exceptions.Timeout: "no answer in time",
    requests.exceptions.ChunkedEncodingError: "the connection was cut",
    requests.exceptions.MissingSchema: "it is not a URL",
    requests.exceptions.InvalidSchema: "it is no URL of http, https or file",
    requests.exceptions.InvalidURL: "it is not a URL",
}
"""First match wins: some of these are kinds of later ones."""
