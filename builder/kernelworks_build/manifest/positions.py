"""Where every key and every value of a TOML document stands.

`tomllib` gives values without their places. This scanner gives places without values; it runs only over text
that `tomllib` has accepted, so it decides nothing and refuses nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from kernelworks_build.toml import parse_toml

__all__ = ["DocumentPath", "Place", "Positions", "scan"]

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
class Positions:
    """The places of a document; a path that is not in it has the place of its nearest ancestor."""

    keys: Mapping[DocumentPath, Place]
    values: Mapping[DocumentPath, Place]

    def key(self, path: DocumentPath) -> Place:
        """Where the last key of `path` is written (an array element: where it starts)."""
        return self._nearest(self.keys, path)

    def value(self, path: DocumentPath) -> Place:
        """Where the value at `path` starts (a table with a header: the key in the header)."""
        return self._nearest(self.values, path)

    def _nearest(self, places: Mapping[DocumentPath, Place], path: DocumentPath) -> Place:
        while path:
            if path in places:
                return places[path]
            path, places = path[:-1], self.keys
        return (1, 1)


def scan(text: str) -> Positions:
    """The places in `text`, a valid TOML document whose lines end in a single newline character."""
    scanner = _Scanner(text)
    scanner.document()
    starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def place(offset: int) -> Place:
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    return Positions(
        {path: place(offset) for path, offset in scanner.keys.items()},
        {path: place(offset) for path, offset in scanner.values.items()},
    )


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.keys: dict[DocumentPath, int] = {}
        self.values: dict[DocumentPath, int] = {}
        self.array_tables: dict[DocumentPath, int] = {}

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

    def _dotted(self) -> list[tuple[str, int]]:
        parts = []
        while True:
            found = self._match(_KEY)
            written = found[1]
            name = next(iter(parse_toml(f"{written}=0"))) if written[0] in "\"'" else written
            parts.append((name, found.start(1)))
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _header(self) -> DocumentPath:
        brackets = 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        *parents, (name, offset) = self._dotted()
        self.at += brackets
        path = (*self._enter((), parents), name)
        if brackets == 1:
            self._put(path, offset, offset)
            return path
        self._note(path, offset)
        count = self.array_tables.get(path, 0)
        self.array_tables[path] = count + 1
        self._put((*path, count), offset, offset)
        return (*path, count)

    def _pair(self, prefix: DocumentPath) -> None:
        *parents, (name, offset) = self._dotted()
        path = (*self._enter(prefix, parents), name)
        self.at += 1  # the equals sign
        self._next()
        self._put(path, offset, self.at)
        self._value(path)

    def _value(self, path: DocumentPath) -> None:
        opening = self.text[self.at]
        if opening not in "[{":
            self._match(_SCALAR)
            return
        self.at += 1
        index = 0
        while self._next() not in "]}":
            if opening == "{":
                self._pair(path)
            else:
                self._put((*path, index), self.at, self.at)
                self._value((*path, index))
            index += 1
            if self._next() == ",":
                self.at += 1
        self.at += 1

    def _enter(self, path: DocumentPath, parents: list[tuple[str, int]]) -> DocumentPath:
        """The path of the table that `parents` lead to: in an array of tables, its last one."""
        for name, offset in parents:
            path = (*path, name)
            self._note(path, offset)
            if path in self.array_tables:
                path = (*path, self.array_tables[path] - 1)
        return path

    def _put(self, path: DocumentPath, key: int, value: int) -> None:
        self.keys[path] = key
        self.values[path] = value

    def _note(self, path: DocumentPath, offset: int) -> None:
        """Places a table at its first mention, until a header of its own is found."""
        self.keys.setdefault(path, offset)
        self.values.setdefault(path, offset)
