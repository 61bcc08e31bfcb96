"""Where every key and every value of a TOML document stands.

`tomllib` gives values without their places. This scanner gives places without values; it runs only over text
that `tomllib` has accepted, so it decides nothing and refuses nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelworks_build.toml import parse_toml

__all__ = ["DocumentPath", "Layout", "Place", "Positions", "Statement", "place_in", "scan"]

DocumentPath = tuple[str | int, ...]
"""Keys and array indices from the root: `("kernel", "relu", "src", 0)`."""

Place = tuple[int, int]
"""Line and column in characters, both from 1."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:\\.|[^"\\])*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*""")
_SCALAR = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}'''
    r"""|'{3}.*?'{3,5}"""
    r'''|"(?:\\.|[^"\\])*"'''
    r"""|'[^']*'"""
    r"""|[^,\]}#\n]+""",
    re.DOTALL,
)


@dataclass(frozen=True)
class Statement:
    """The offsets of a `key = value`, or of an element of an array.

    Attributes:
        start: Of its first key: that of `a` in `a.b = 1`.
        key: Of its last key: that of `b`.
        value: Of the value.
        end: Behind the value.
        inside: The bracket that it stands in: `{`, `[`, or nothing where it has its own line.
    """

    start: int
    key: int
    value: int
    end: int
    inside: str


@dataclass(frozen=True)
class Layout:
    """Offsets in a text, by path.

    Attributes:
        keys: The last key.
        values: The value; of a table with a header, the key in the header.
        statements: Everything that is given by itself, not by a header.
        mentions: Start and end of every place where the key is written: `a` in `[a]` and in `[a.b]`.
        headers: Where the last keys of all headers are written, in order.
    """

    keys: Mapping[DocumentPath, int]
    values: Mapping[DocumentPath, int]
    statements: Mapping[DocumentPath, Statement]
    mentions: Mapping[DocumentPath, Sequence[tuple[int, int]]]
    headers: Sequence[int]


@dataclass(frozen=True)
class Positions:
    """The places of a document; a path that is not in it has the place of its nearest ancestor."""

    layout: Layout
    place: Callable[[int], Place]

    def key(self, path: DocumentPath) -> Place:
        """Where the last key of `path` is written (an array element: where it starts)."""
        return self._nearest(self.layout.keys, path)

    def value(self, path: DocumentPath) -> Place:
        """Where the value at `path` starts (a table with a header: the key in the header)."""
        return self._nearest(self.layout.values, path)

    def _nearest(self, offsets: Mapping[DocumentPath, int], path: DocumentPath) -> Place:
        while path:
            if path in offsets:
                return self.place(offsets[path])
            path, offsets = path[:-1], self.layout.keys
        return (1, 1)


def scan(text: str) -> Layout:
    """The offsets in `text`, a valid TOML document whose lines end in a single newline character."""
    scanner = _Scanner(text)
    scanner.document()
    return Layout(scanner.keys, scanner.values, scanner.statements, scanner.mentions, scanner.headers)


def place_in(text: str) -> Callable[[int], Place]:
    """What turns an offset in `text` into line and column."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def place(offset: int) -> Place:
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    return place


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.keys: dict[DocumentPath, int] = {}
        self.values: dict[DocumentPath, int] = {}
        self.statements: dict[DocumentPath, Statement] = {}
        self.mentions: dict[DocumentPath, list[tuple[int, int]]] = defaultdict(list)
        self.array_tables: dict[DocumentPath, int] = {}
        self.headers: list[int] = []

    def document(self) -> None:
        prefix: DocumentPath = ()
        while self._next():
            if self.text.startswith("[", self.at):
                prefix = self._header()
            else:
                self._pair(prefix)

    def _next(self) -> str:
        """The next character that is neither blank nor comment; empty at the end."""
        self._match(_BLANK)
        return self.text[self.at : self.at + 1]

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if not found:
            msg = f"not TOML at offset {self.at}"
            raise ValueError(msg)
        self.at = found.end()
        return found

    def _dotted(self, prefix: DocumentPath) -> tuple[DocumentPath, int, int]:
        """The path that a dotted key leads to, and the offsets of its first and its last part."""
        path, start = prefix, -1
        while True:
            found = self._match(_KEY)
            written, offset = found[1], found.start(1)
            name = next(iter(parse_toml(f"{written}=0"))) if written[0] in "\"'" else written
            path = (*path, name)
            self.mentions[path].append(found.span(1))
            start = offset if start < 0 else start
            if not self.text.startswith(".", self.at):
                return path, start, offset
            self.at += 1
            self._note(path, offset)
            if path in self.array_tables:  # its last one
                path = (*path, self.array_tables[path] - 1)

    def _header(self) -> DocumentPath:
        brackets = 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        path, _, offset = self._dotted(())
        self.headers.append(offset)
        self.at += brackets
        if brackets == 1:
            self._put(path, offset, offset)
            return path
        self._note(path, offset)
        count = self.array_tables.get(path, 0)
        self.array_tables[path] = count + 1
        self._put((*path, count), offset, offset)
        return (*path, count)

    def _pair(self, prefix: DocumentPath, inside: str = "") -> None:
        path, start, key = self._dotted(prefix)
        self.at += 1  # the equals sign
        self._next()
        self._statement(path, start, key, inside)

    def _statement(self, path: DocumentPath, start: int, key: int, inside: str) -> None:
        value = self.at
        self._put(path, key, value)
        self._value(path)
        end = value + len(self.text[value : self.at].rstrip())  # a number or a date is matched up to what follows
        self.statements[path] = Statement(start, key, value, end, inside)

    def _value(self, path: DocumentPath) -> None:
        opening = self.text[self.at]
        if opening not in "[{":
            self._match(_SCALAR)
            return
        self.at += 1
        index = 0
        while self._next() not in "]}":
            if opening == "{":
                self._pair(path, opening)
            else:
                self._statement((*path, index), self.at, self.at, opening)
            index += 1
            if self._next() == ",":
                self.at += 1
        self.at += 1

    def _put(self, path: DocumentPath, key: int, value: int) -> None:
        self.keys[path] = key
        self.values[path] = value

    def _note(self, path: DocumentPath, offset: int) -> None:
        """Places a table at its first mention, until a header of its own is found."""
        self.keys.setdefault(path, offset)
        self.values.setdefault(path, offset)
