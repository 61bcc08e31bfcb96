"""Changing a manifest one statement at a time, with every other character, and every place, kept."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.positions import DocumentPath

__all__ = ["append", "insert", "remove", "remove_table", "rename", "replace_value"]

_LINE_WITH_COMMENT = re.compile(r"(?:^[ \t]*#.*\n)*^[^\n]*\Z", re.MULTILINE)
_COMMA = re.compile(r"\s*,[ \t]*")


def rename(document: Document, path: DocumentPath, *keys: str) -> Document:
    """`document` with the last key of `path` written as `keys`, with dots between them."""
    own = document.own(path)
    for start, end in reversed(document.layout.mentions[path]):
        document = document.edited(start, end, ".".join(keys))
    return document.known_as((*path[:-1], *keys), own)


def replace_value(document: Document, path: DocumentPath, value: str) -> Document:
    """`document` with `value`, a value in TOML, at `path`."""
    statement = document.layout.statements[path]
    return document.edited(statement.value, statement.end, value)


def insert(document: Document, after: DocumentPath, *statements: str) -> Document:
    """`document` with `key = value` statements behind that of the sibling `after`."""
    there, text = document.layout.statements[after], document.content
    if there.inside:
        new = "".join(f", {text[there.start : there.key]}{one}" for one in statements)
        return document.edited(there.end, there.end, new)
    prefix = text[text.rfind("\n", 0, there.start) + 1 : there.key]
    end = _line_end(text, there.end)
    return document.edited(end, end, "".join(f"\n{prefix}{one}" for one in statements))


def remove(document: Document, path: DocumentPath) -> Document:
    """`document` without the statement or array element at `path`; a comment behind it stays."""
    there, text = document.layout.statements[path], document.content
    if there.inside:
        if behind := _COMMA.match(text, there.end):
            return document.edited(there.start, behind.end(), "")
        before = text[: there.start].rstrip()
        return document.edited(len(before) - 1 if before.endswith(",") else there.start, there.end, "")
    start, end = text.rfind("\n", 0, there.start) + 1, _line_end(text, there.end)
    comment = text[there.end : end].lstrip()
    return document.edited(start, end + (not comment), comment)


def remove_table(document: Document, path: DocumentPath) -> Document:
    """`document` without the table whose header names `path`, and without the comment above it."""
    text, layout = document.content, document.layout
    headers = sorted({_block_start(text, at) for at in layout.headers} | {len(text)})
    start = _block_start(text, layout.keys[path])
    end = headers[headers.index(start) + 1]
    if end == len(text):  # the blank line above goes with the last table
        start = len(text[:start].rstrip()) + 1
    return document.edited(start, end, "")


def append(
    document: Document, header: str, *statements: str, like: DocumentPath = (), keys: Iterable[str] = ()
) -> Document:
    """`document` with a table below `[header]` at its end: `statements`, and the `keys` of the table `like`."""
    content, origins = document.content, document.origins
    gap = "" if content.endswith("\n\n") else "\n" if content.endswith("\n") else "\n\n"
    new = gap + "".join(f"{line}\n" for line in (f"[{header}]", *statements))
    places = [origins[document.layout.keys.get(like, len(content))]] * len(new)
    for path in ((*like, key) for key in keys):
        there = document.layout.statements[path]
        new += f"{content[there.key : there.end]}\n"
        places += origins[there.key : there.end + 1]
    return document.edited(len(content), len(content), new, places)


def _block_start(text: str, offset: int) -> int:
    """Where the line of `offset` starts, with the lines of comment directly above it."""
    found = _LINE_WITH_COMMENT.search(text, 0, offset)
    return found.start() if found else 0


def _line_end(text: str, offset: int) -> int:
    found = text.find("\n", offset)
    return found if found >= 0 else len(text)
