"""A manifest before it is a `Manifest`: data, places, and reading that steps over wrong shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from kernelworks_build.manifest.diagnostics import Diagnostic
from kernelworks_build.manifest.model import FRAMEWORKS
from kernelworks_build.manifest.positions import DocumentPath, Layout, Positions, place_in, scan
from kernelworks_build.toml import TOMLDecodeError, parse_toml

__all__ = ["Document", "parse_document"]

_OVERWRITTEN = "Cannot overwrite a value"
_DECLARED = re.compile(r"Cannot declare \((.*)\) twice")
_QUOTED = re.compile("'([^']*)'")
_PAIR = re.compile(r"\s*([^=#]+?)\s*=")


@dataclass(frozen=True)
class Document:
    """A TOML document; rules read it so that one fault does not hide another.

    Attributes:
        content: What `data` is read from.
        data: As `tomllib` reads it, with decimal numbers as `Decimal`, which keeps them as written (`2.10`).
        file: The text as it stands in the file.
        origins: The offset in `file` that each offset of `content` comes from, that of its end included.
        former: Path of a key that was renamed -> its path in the file.
    """

    content: str
    data: dict[str, Any]
    file: str
    origins: Sequence[int]
    former: Mapping[DocumentPath, DocumentPath] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Document:
        """The document in `text`; raises what `tomllib` does."""
        return cls(text, parse_toml(text, parse_float=Decimal), text, range(len(text) + 1))

    @cached_property
    def layout(self) -> Layout:
        """Where everything stands in `content`."""
        return scan(self.content)

    @cached_property
    def positions(self) -> Positions:
        """Where everything stands in the file."""
        place = place_in(self.file)
        return Positions(self.layout, lambda offset: place(self.origins[offset]))

    def edited(self, start: int, end: int, new: str, origins: Sequence[int] = ()) -> Document:
        """The document with `new` in place of what stands from `start` to `end`; without `origins` it comes from there.

        Raises:
            TOMLDecodeError: The result is no document.
        """
        content = self.content[:start] + new + self.content[end:]
        moved = [*self.origins[:start], *(origins or [self.origins[start]] * len(new)), *self.origins[end:]]
        return replace(self, content=content, data=parse_toml(content, parse_float=Decimal), origins=moved)

    def known_as(self, path: DocumentPath, former: DocumentPath) -> Document:
        """The document with `former` as what `path` is called in messages."""
        return replace(self, former={**self.former, path: former})

    def own(self, path: DocumentPath) -> DocumentPath:
        """`path` in the keys of the file."""
        for length in range(len(path), 0, -1):
            if former := self.former.get(path[:length]):
                return (*former, *path[length:])
        return path

    def unit_tables(self) -> list[DocumentPath]:
        """The tables that list sources: those of frameworks, and every component."""
        return [
            *((key,) for key in FRAMEWORKS if key in self.data),
            *(("kernel", name) for name in self.table("kernel")),
        ]

    def table(self, *path: str | int) -> dict[str, Any]:
        """The table at `path`; empty where there is none."""
        found = self.value(*path)
        return found if isinstance(found, dict) else {}

    def text(self, *path: str | int) -> str | None:
        """The text at `path`, or None."""
        found = self.value(*path)
        return found if isinstance(found, str) else None

    def texts(self, *path: str | int) -> list[tuple[DocumentPath, str]]:
        """The texts of the list at `path`, each with its own path."""
        found = self.value(*path)
        items = found if isinstance(found, list) else []
        return [((*path, index), item) for index, item in enumerate(items) if isinstance(item, str)]

    def spelling(self, table: DocumentPath, key: str | int) -> str | int:
        """`key` as the table at `table` spells it: with underscores where it has them instead of dashes."""
        underscored = str(key).replace("-", "_")
        found = self.table(*table)
        return underscored if key not in found and underscored in found else key

    def value(self, *path: str | int) -> Any:
        """Whatever is at `path`, or None."""
        found: Any = self.data
        try:
            for part in path:
                found = found[part]
        except (KeyError, IndexError, TypeError):
            return None
        return found


def parse_document(data: bytes, file: str) -> Document | Diagnostic:
    """The document in `data`, or what keeps it from being TOML; `file` names it in the diagnostic."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        return Diagnostic(file, *_place(before, len(before)), "error", "not-text", "not UTF-8 text", "save it as UTF-8")
    try:
        document = Document.parse(text)
        _ = document.layout  # what is nested too deeply for the scanner, is so here
    except RecursionError:
        return Diagnostic(file, 1, 1, "error", "not-toml", "not a manifest: values are nested too deeply")
    except ValueError as error:
        return _syntax_error(error, text, file)
    return document


def _syntax_error(error: ValueError, text: str, file: str) -> Diagnostic:
    """`tomllib` tells the place in its message: `... (at line 3, column 5)` or `... (at end of document)`."""
    words, _, where = str(error).rpartition(" (at ") if isinstance(error, TOMLDecodeError) else (str(error), "", "")
    found = re.fullmatch(r"line (\d+), column (\d+)\)", where)
    place = (int(found[1]), int(found[2])) if found else _place(text, len(text))
    line = "".join(text.split("\n")[place[0] - 1 : place[0]])
    hint = None
    if words == _OVERWRITTEN and (key := _PAIR.match(line)):
        place, words = (place[0], key.start(1) + 1), f"`{key[1].strip()}` is given twice"
    elif table := _DECLARED.fullmatch(words):
        words = f"the table `[{'.'.join(re.findall(_QUOTED, table[1]))}]` is given twice"
    elif words == "Invalid value":
        hint = "texts stand in quotes"
    return Diagnostic(file, *place, "error", "not-toml", f"not valid TOML: {words[:1].lower()}{words[1:]}", hint)


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1
