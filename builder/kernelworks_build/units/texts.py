"""The files of a kernel that a unit may read, found by the names in them before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from posixpath import basename
from typing import Any

from kernelworks_build.units import directives

__all__ = ["Text", "Texts"]

_SOURCE = "/src/"


@dataclass(frozen=True)
class Text:
    """A file of the kernel, of which many units may ask the same."""

    path: Path

    @cached_property
    def code(self) -> bytes:
        """What it says, without comments."""
        return directives.without_comments(self._content)

    @cached_property
    def tails(self) -> frozenset[str]:
        """How the paths of the files end that it includes."""
        names = directives.includes(self._content) | directives.includes(self.code)  # a comment may stand before one
        return frozenset(re.sub(r"^(?:\.{1,2}/)*", "", name) for name in names)

    @cached_property
    def _content(self) -> bytes:
        return self.path.read_bytes()


@dataclass(frozen=True)
class Texts:
    """Every file of a kernel by its relative path."""

    files: Mapping[str, Text]

    @classmethod
    def below(cls, folder: Path) -> Texts:
        """The files in `folder`, where the kernel's sources lie."""
        return cls({path.relative_to(folder).as_posix(): Text(path) for path in folder.rglob("*") if path.is_file()})

    def reached(self, unit: Mapping[str, Any]) -> Iterator[Text]:
        """The unit's source and all that it may include, wherever the search would end."""
        source = unit["source"].removeprefix(_SOURCE)
        waiting, seen = [source], {source}
        while waiting:
            text = self.files[waiting.pop()]
            yield text
            new = {path for tail in text.tails for path in self._ending_in(tail)} - seen
            seen |= new
            waiting += sorted(new)

    def _ending_in(self, tail: str) -> Iterator[str]:
        return (path for path in self._by_name.get(basename(tail), ()) if f"/{path}".endswith(f"/{tail}"))

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self.files:
            found.setdefault(basename(path), []).append(path)
        return found
