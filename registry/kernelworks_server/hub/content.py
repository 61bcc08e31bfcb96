"""The bytes of one file over HTTP: headers that clients build their caches on, and one byte range (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from kernelworks_server.blobs import Blobs
from kernelworks_server.records import Entry

__all__ = ["Span", "UnsatisfiableError", "file_response", "span_of"]

_RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII)
_IN_ONE_PIECE = 256 << 10  # bytes; a stream of a few costs more than they do
_DIGITS = 18  # of a number in a range; more is no file


class UnsatisfiableError(ValueError):
    """The range lies outside the file."""


@dataclass(frozen=True)
class Span:
    """Bytes `start` to `stop` (exclusive) of a file; `partial` where they were asked for as a range."""

    start: int
    stop: int
    partial: bool


def span_of(header: str | None, size: int) -> Span:
    """The bytes of a file of `size` bytes that a `Range` header asks for.

    Headers of another form, several ranges among them, ask for the whole file, as the RFC allows.

    Raises:
        UnsatisfiableError: No byte of the file is in the range.
    """
    whole = Span(0, size, partial=False)
    found = None if header is None else _RANGE.fullmatch(header.replace(" ", ""))
    if found is None or found.groups() == ("", "") or max(map(len, found.groups())) > _DIGITS:
        return whole
    first, last = found.groups()
    if not first:
        start, stop = max(size - int(last), 0), size
    else:
        start, stop = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return whole
    if start >= stop:
        raise UnsatisfiableError
    return Span(start, stop, partial=True)


def file_response(blobs: Blobs, entry: Entry, commit: str, *, head: bool, request: Mapping[str, str]) -> Response:
    """The answer to GET or HEAD of a file at a commit.

    Files are what anybody uploaded: no browser may take one for a page of this registry.
    """
    etag = f'"{entry.sha256 if entry.lfs else entry.oid}"'
    linked = {"X-Linked-Etag": etag, "X-Linked-Size": str(entry.size)} if entry.lfs else {}
    headers = {
        "X-Repo-Commit": commit,
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"inline; filename*=UTF-8''{quote(entry.path.rpartition('/')[2], safe='')}",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        **linked,
    }
    if request.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    fresh = request.get("if-range", etag) == etag
    try:
        span = span_of(request.get("range") if fresh and not head else None, entry.size)
    except UnsatisfiableError:
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{entry.size}"})
    headers["Content-Length"] = str(span.stop - span.start)
    if span.partial:
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{entry.size}"
    status = 206 if span.partial else 200
    if head or span.start == span.stop:
        return Response(status_code=status, headers=headers)
    content = blobs.read(entry.sha256, span.start, span.stop)
    if span.stop - span.start <= _IN_ONE_PIECE:
        return Response(b"".join(content), status, headers)
    return StreamingResponse(content, status, headers)
