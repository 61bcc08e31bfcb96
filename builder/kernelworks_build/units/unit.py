"""One translation unit, as compile.json lists it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from posixpath import normpath
from typing import Any

__all__ = ["Slim", "Unit", "units"]

_FOLDER_OPTIONS = ("-I", "-isystem", "-iquote", "-idirafter")


@dataclass(frozen=True)
class Slim:
    """The slim headers that a unit is tried with first, unless a header in `trees` defines one of `macros`.

    Attributes:
        folder: Where they lie, as inside the sandbox.
        trees: Those that hold all that the whole headers may read, as inside the sandbox.
        macros: Those that decide its conditions.
    """

    folder: str
    trees: tuple[str, ...]
    macros: tuple[str, ...]


@dataclass(frozen=True)
class Unit:
    """One compile.

    Attributes:
        source: Path of the source, as inside the sandbox.
        object: The object file, relative to the build folder.
        depfile: What the compiler lists the files in that it read, relative to the build folder.
        command: The compile line.
        slim: The slim headers that it is tried with first; None: it is not.
    """

    source: str
    object: str
    depfile: str
    command: tuple[str, ...]
    slim: Slim | None = None

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
        Unit(entry["source"], entry["object"], entry["depfile"], tuple(entry["command"]), _slim(entry.get("slim")))
        for entry in document["units"]
    )


def _slim(entry: Mapping[str, Any] | None) -> Slim | None:
    return Slim(entry["folder"], tuple(entry["trees"]), tuple(entry["macros"])) if entry else None
