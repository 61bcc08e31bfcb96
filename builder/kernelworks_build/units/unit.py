"""One translation unit, as compile.json lists it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from posixpath import normpath
from typing import Any

__all__ = ["Unit", "units"]

_FOLDER_OPTIONS = ("-I", "-isystem", "-iquote", "-idirafter")


@dataclass(frozen=True)
class Unit:
    """One compile.

    Attributes:
        source: Path of the source, as inside the sandbox.
        object: The object file, relative to the build folder.
        depfile: What the compiler lists the files in that it read, relative to the build folder.
        command: The compile line.
        slim: The folder of slim headers that it is tried with first, as inside the sandbox; empty: none.
    """

    source: str
    object: str
    depfile: str
    command: tuple[str, ...]
    slim: str = ""

    @property
    def headers(self) -> str:
        """The file, relative to the build folder, that says which headers it was compiled with."""
        return f"{self.object}.headers"

    @property
    def include_folders(self) -> tuple[str, ...]:
        """The folders that the command searches for headers."""
        words = [*self.command, ""]
        found = []
        for word, following in pairwise(words):
            option = next((one for one in _FOLDER_OPTIONS if word.startswith(one)), None)
            if option:
                found.append(normpath(word.removeprefix(option).removeprefix("=") or following))
        return tuple(found)


def units(document: Mapping[str, Any]) -> tuple[Unit, ...]:
    """The units of a compile.json."""
    return tuple(
        Unit(entry["source"], entry["object"], entry["depfile"], tuple(entry["command"]), entry.get("slim", ""))
        for entry in document["units"]
    )
