"""The lines of a commit (NDJSON), read one at a time and each within its limits."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from kernelworks.model.decode import Node, parse_json
from kernelworks_server.config import Limits
from kernelworks_server.errors import BadRequest, TooLarge
from kernelworks_server.records import DeleteFile, DeleteFolder

__all__ = ["Header", "InlineFile", "LargeFile", "Line", "decode_base64", "prose", "read_commit"]

_FRAME = 64 << 10  # bytes of a line that are not a file's content


@dataclass(frozen=True)
class Header:
    """What the commit says of itself; `parent` is the commit that the client had before it, where it tells."""

    summary: str
    description: str
    parent: str | None


@dataclass(frozen=True)
class InlineFile:
    """A small file that travels in its line."""

    path: str
    content: bytes


@dataclass(frozen=True)
class LargeFile:
    """A file that was uploaded before; `size` in bytes, None where the client copies what the repository holds."""

    path: str
    sha256: str
    size: int | None


Line = InlineFile | LargeFile | DeleteFile | DeleteFolder


def read_commit(body: IO[bytes], limits: Limits) -> tuple[Header, Iterator[Line]]:
    """The header, and the lines after it as they are asked for.

    Raises:
        RepositoryError: A line is not the JSON it should be, or holds a path that leaves the repository.
        BadRequest: A line of no known kind, or a path that is written twice.
        TooLarge: A line or the number of lines is over its limit.
    """
    lines = _lines(body, limits)
    first = next(lines, None)
    if first is None or first.get("key").text() != "header":
        raise BadRequest("the first line of a commit must be its `header`")
    value = first.get("value")
    parent = value.opt("parentCommit")
    header = Header(
        summary=prose(value, "summary"),
        description=prose(value, "description"),
        parent=None if parent is None else parent.text(),
    )
    return header, _changes(lines, limits)


def _lines(body: IO[bytes], limits: Limits) -> Iterator[Node]:
    longest = limits.regular_file * 4 // 3 + _FRAME
    number = 0
    while line := body.readline(longest + 1):
        if len(line) > longest:
            raise TooLarge(
                f"a line of the commit is longer than {longest} bytes", hint="upload large files by LFS or Xet"
            )
        if not line.isspace():
            number += 1
            yield parse_json(line, f"line {number} of the commit")
            if number > limits.operations:
                raise TooLarge(f"the commit has more than {limits.operations} operations")


def _changes(lines: Iterator[Node], limits: Limits) -> Iterator[Line]:
    written: set[str] = set()
    for node in lines:
        line = _change(node.get("key").text(), node.get("value"), limits)
        if isinstance(line, InlineFile | LargeFile):
            if line.path in written:
                raise BadRequest(f"the commit writes `{line.path}` twice", path=line.path)
            written.add(line.path)
        yield line


def _change(key: str, value: Node, limits: Limits) -> Line:
    match key:
        case "file":
            return InlineFile(value.get("path").relative_path(), _content(value, limits))
        case "lfsFile":
            value.get("algo").choice("sha256")
            size = value.opt("size")
            path = value.get("path").relative_path()
            return LargeFile(path, value.get("oid").sha256(), None if size is None else size.natural())
        case "deletedFile":
            return DeleteFile(value.get("path").relative_path())
        case "deletedFolder":
            folder = value.get("path")
            return DeleteFolder(Node(folder.text().removesuffix("/"), folder.origin, folder.path).relative_path())
    raise BadRequest(f"`{key}` is not an operation that this registry knows")


def _content(value: Node, limits: Limits) -> bytes:
    value.get("encoding").choice("base64")
    content = decode_base64(value.get("content"))
    if len(content) > limits.regular_file:
        raise TooLarge(
            f"a file in a commit may have {limits.regular_file} bytes at most", hint="upload it by LFS or Xet"
        )
    return content


def decode_base64(node: Node) -> bytes:
    """The bytes that the string `node` stands for.

    Raises:
        RepositoryError: It is not base64.
    """
    try:
        return base64.b64decode(_string(node), validate=True)
    except ValueError as error:
        raise node.fault("is not base64") from error


def prose(value: Node, key: str) -> str:
    """Text that people wrote, in lines as they like; whoever takes it says what it may hold."""
    node = value.opt(key)
    return "" if node is None else _string(node)


def _string(node: Node) -> str:
    """The string as it is; `Node.text` would look at every character."""
    if not isinstance(node.value, str):
        raise node.fault("must be a string")
    return node.value
