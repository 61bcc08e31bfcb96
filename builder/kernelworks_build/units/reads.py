"""What a unit read, what it could have read instead, and which of its macros matter: all that decides its object.

Files of the source and builder trees count one by one. A tree that the command names only as a place of headers counts
when a file of it was read, or would be: a header that comes first on the path from now on. All other trees (compilers,
system headers) count always.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from posixpath import dirname, isfile, normpath
from typing import Any, TypeAlias

from kernelworks.model.digest import hash_file
from kernelworks_build.action import Action, Mount
from kernelworks_build.units import directives
from kernelworks_build.units.unit import Unit

__all__ = ["Reads", "Trees", "depfile_paths", "macro"]

_SOURCE, _BUILDER, _SPEC = "/src", "/opt/kernelworks", "/spec"
_BY_FILE = (_SOURCE, _BUILDER)
_OWN = tuple(f"{target}/" for target in _BY_FILE)
_WORD = re.compile(r"(?:\\.|[^\s\\])+")
_OWN_PATH = re.compile(rf"{_SOURCE}/[^,=]+")
_SHORTEST_PART = 2
_SCRIPT = "compile.sh"

_Names: TypeAlias = "dict[str, _Names]"
"""Names of files, without a common start twice: part -> the parts that may follow it."""


def depfile_paths(text: str) -> frozenset[str]:
    """The files in a dependency file as compilers write it (make's syntax), normalised."""
    _, _, listed = text.replace("\\\n", " ").partition(": ")
    words = (re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in _WORD.findall(listed))
    return frozenset(map(normpath, words))


def macro(word: str) -> str | None:
    """The name that the word of a command defines (`-DNAME=1`), or None."""
    found = re.match(r"-D(\w+)", word)
    return found[1] if found else None


@dataclass(frozen=True)
class Trees:
    """The trees of an action, as a unit sees them; what was looked up is remembered, as no tree changes."""

    action: Action
    _digests: dict[str, str] = field(default_factory=dict)
    _files: dict[str, bool] = field(default_factory=dict)
    _folders: dict[str, frozenset[str]] = field(default_factory=dict)

    def mount_of(self, path: str) -> Mount | None:
        """The mount that `path` lies in."""
        inside = f"{path}/"
        return next((mount for mount in self._innermost_first if inside.startswith(f"{mount.target}/")), None)

    def digest(self, path: str) -> str | None:
        """SHA-256 of the file `path`, or None where there is none."""
        if path not in self._digests:
            if not self.holds(path):
                return None
            self._digests[path] = hash_file(Path(self._locate(path)))[1]
        return self._digests[path]

    def bytes_of(self, path: str) -> bytes:
        """The content of `path`; none where there is no such file."""
        return Path(self._locate(path)).read_bytes() if self.holds(path) else b""

    def holds(self, path: str) -> bool:
        """Whether there is a file `path`."""
        if path not in self._files:
            self._files[path] = isfile(self._locate(path))
        return self._files[path]

    def names_in(self, folder: str) -> frozenset[str]:
        """The names in `folder`; none where there is no such folder."""
        if folder not in self._folders:
            with suppress(OSError):
                self._folders[folder] = frozenset(os.listdir(self._locate(folder)))  # noqa: PTH208  # names, not paths
        return self._folders.setdefault(folder, frozenset())

    @cached_property
    def _innermost_first(self) -> list[Mount]:
        return sorted(self.action.mounts, key=lambda mount: -len(mount.target))

    def _locate(self, path: str) -> str:
        """Where `path` of the sandbox lies here; nowhere (an empty text) outside of the mounts. Thousands are asked."""
        mount = self.mount_of(path)
        return f"{mount.tree.path}/{path.removeprefix(mount.target)}" if mount else ""

    def places_of_headers(self, unit: Unit) -> set[str]:
        """The mounts that `unit` names as places of headers and in no other way."""
        folders = set(unit.include_folders)
        other = " ".join(word for word in unit.command if normpath(re.sub(r"^-\w+?(?=/)", "", word)) not in folders)
        return {
            mount.target
            for mount in self.action.mounts
            if any(self.mount_of(folder) == mount for folder in folders) and f"{mount.target}/" not in other
        }


@dataclass(frozen=True)
class Reads:
    """What compiling a unit once showed; the same for every build in which these files are the same.

    Attributes:
        files: The files that were read.
        asked: Names that its own files include in whatever case, or that any file asks for by `__has_include`.
        macros: The macros of the command that some file mentions.
    """

    files: frozenset[str]
    asked: frozenset[str]
    macros: frozenset[str]

    @classmethod
    def of(cls, unit: Unit, depfile: str, trees: Trees) -> Reads | None:
        """What `unit` read by its `depfile`; None where that does not tell all (`.incbin`)."""
        files = depfile_paths(depfile) | _named(unit, trees)
        texts = {path: trees.bytes_of(path) for path in files}
        asked: set[str] = set().union(*map(directives.probes, texts.values()))
        while True:  # a header that one pass of several skips may name others
            own = {path: text for path, text in texts.items() if _is_own(path)}
            asked |= set().union(*map(directives.includes, own.values()), *map(directives.probes, own.values()))
            found = cls(files, frozenset(asked), frozenset())
            missing = [path for path in found.rivals(unit, trees) if _is_own(path) and path not in texts]
            if not missing:
                break
            texts |= {path: trees.bytes_of(path) for path in missing}
        if any(b"incbin" in text for text in own.values()):
            return None
        macros = {name for word in unit.command if (name := macro(word))}
        values = [word.partition("=")[2].encode() for word in unit.command if macro(word)]
        return cls(files, frozenset(asked), frozenset(_mentioned(macros, [*texts.values(), *values], own.values())))

    @property
    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"files": sorted(self.files), "asked": sorted(self.asked), "macros": sorted(self.macros)}

    @classmethod
    def from_document(cls, document: Mapping[str, list[str]]) -> Reads:
        """The inverse of `document`."""
        return cls(*(frozenset(document[key]) for key in ("files", "asked", "macros")))

    def key(self, unit: Unit, trees: Trees) -> dict[str, Any] | None:
        """All that decides the object of `unit` in `trees`, as JSON; None where a file that it read is not there."""
        rivals = set(self.rivals(unit, trees))
        own = {path: trees.digest(path) for path in self.files | rivals if _is_own(path)}
        if None in own.values():
            return None
        looked_into = {mount.target for path in self.files | rivals if (mount := trees.mount_of(path))}
        unread = trees.places_of_headers(unit) - looked_into.union(unit.slim.trees if unit.slim else ())
        return {
            "command": [word for word in unit.command if (name := macro(word)) is None or name in self.macros],
            "environment": dict(trees.action.env),
            **({"slim": asdict(unit.slim)} if unit.slim else {}),
            "files": own,
            "trees": {
                mount.target: mount.tree.digest
                for mount in trees.action.mounts
                if mount.target not in {*_BY_FILE, _SPEC, *unread}
            },
        }

    def rivals(self, unit: Unit, trees: Trees) -> Iterator[str]:
        """Files that were not read and that one of the names stands for, where it is looked up elsewhere."""
        near = {dirname(path) for path in self.files if path.startswith(f"{_SOURCE}/")}
        places = trees.places_of_headers(unit) | set(_BY_FILE)
        for folder in sorted({*unit.include_folders, *near}):
            mount = trees.mount_of(folder)
            if mount and mount.target in places and trees.names_in(folder):
                yield from self._unread(folder, self._names, trees)

    def _unread(self, folder: str, names: _Names, trees: Trees) -> Iterator[str]:
        """The files that `names` lead to from `folder`, without those that were read."""
        for part in names.keys() & (trees.names_in(folder) | {".."}):
            path = normpath(f"{folder}/{part}")
            if path in self.files:
                continue
            if trees.holds(path):
                yield path
            else:
                yield from self._unread(path, names[part], trees)

    @cached_property
    def _names(self) -> _Names:
        """Every name by which a file may have been asked for, part by part."""
        paths = [path.strip("/").split("/") for path in self.files]
        tails = [path[start:] for path in paths for start in range(len(path))]
        names: _Names = {}
        for parts in (*tails, *(normpath(name).split("/") for name in self.asked)):
            following = names
            for part in parts:
                following = following.setdefault(part, {})
        return names


def _named(unit: Unit, trees: Trees) -> set[str]:
    """The files of its own that no dependency file lists: those that flags name, and what tries the slim headers."""
    words = [path for word in unit.command for path in _OWN_PATH.findall(word)]
    script = [f"{dirname(unit.slim.folder)}/{_SCRIPT}"] if unit.slim else []
    return {path for path in (*words, *script) if trees.digest(path)}


def _is_own(path: str) -> bool:
    return path.startswith(_OWN)


def _mentioned(macros: Collection[str], texts: Collection[bytes], own: Iterable[bytes]) -> Iterator[str]:
    """Those of `macros` that a text holds, or that one of the kernel's `own` may make by pasting its parts."""
    pasting = [text for text in own if directives.pastes(text)]
    parts = tuple({part for text in pasting for part in directives.tokens(text) if len(part) >= _SHORTEST_PART})
    for name in macros:
        if name.startswith(parts) or any(name.encode() in text for text in texts):
            yield name
