"""The data file `recipes.toml`: which packages a lock pins, and where their files go in the tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toml import read_toml
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.tree import Entry, FileEntry

__all__ = ["Layout", "Pinned", "layout", "needs", "pinned"]


@dataclass(frozen=True)
class Pinned:
    """What a lock pins.

    Attributes:
        recipe: Name of the recipe that makes the tree.
        debs: Debian release -> names of packages.
        component: The part of those releases that holds them.
        exports: Debian release -> packages that are not in the tree, but what their libraries export is listed.
        sdists: Project name -> version specifier.
        wheels: Project name -> version specifier.
    """

    recipe: str
    debs: Mapping[str, tuple[str, ...]]
    component: str
    exports: Mapping[str, tuple[str, ...]]
    sdists: Mapping[str, str]
    wheels: Mapping[str, str]


@dataclass(frozen=True)
class Place:
    """Files of `packages` (empty: of all) whose path matches `source` go to `target`, a template."""

    packages: frozenset[str]
    source: re.Pattern[str]
    target: str


@dataclass(frozen=True)
class Layout:
    """Where files of packages go in a tree.

    Attributes:
        drop: Paths in packages that are left out.
        places: The first that fits is taken; what fits none is left out.
        executable: Paths in the tree that are executable; None: as the package says.
        links: Link path in the tree -> target, relative to the link.
        scripts: Path in the tree -> text of a program that no package has.
        cut: Wheels of which nothing but the files with these paths is fetched, by name of package.
        seed: Path in the tree of the program that unpacks the first packages for nix; empty elsewhere.
    """

    drop: re.Pattern[str]
    places: tuple[Place, ...]
    executable: re.Pattern[str] | None
    links: Mapping[str, str]
    scripts: Mapping[str, str] = field(default_factory=dict)
    cut: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    seed: str = ""

    def place(self, package: str, entries: Iterable[Entry]) -> Iterable[Entry]:
        """The `entries` of `package` as they lie in the tree."""
        for entry in entries:
            target = self._target(package, entry.path)
            if target is None:
                continue
            if self.executable and isinstance(entry, FileEntry):
                yield FileEntry(target, bool(self.executable.fullmatch(target)), entry.data)
            else:
                yield replace(entry, path=target)

    def cut_of(self, artifact: Artifact) -> re.Pattern[str] | None:
        """Paths of the files that alone are fetched of `artifact`; None where it is fetched whole."""
        return self.cut.get(artifact.name) if artifact.kind == "wheel" else None

    def _target(self, package: str, path: str) -> str | None:
        if self.drop.fullmatch(path):
            return None
        for place in self.places:
            if (not place.packages or package in place.packages) and (match := place.source.fullmatch(path)):
                return match.expand(place.target)
        return None


def pinned(name: str) -> Pinned:
    """What the lock `name` pins.

    Raises:
        ToolchainError: No such lock is described.
    """
    known = _data()["lock"]
    if name not in known:
        what = name.rpartition("-")[0]
        alike = [other for other in known if other.rpartition("-")[0] == what] or list(known)
        raise ToolchainError(f"`{name}` cannot be locked (known: {', '.join(alike)})", name=name, known=alike)
    item = known[name]
    return Pinned(
        recipe=item["recipe"],
        debs={release: tuple(names) for release, names in item.get("debs", {}).items()},
        component=item.get("component", "main"),
        exports={release: tuple(names) for release, names in item.get("exports", {}).items()},
        sdists=item.get("sdists", {}),
        wheels=item.get("wheels", {}),
    )


def needs(recipe: str, version: str) -> tuple[str, ...]:
    """Names of the locks whose trees one of `recipe` is made of, where `version` is that of its own lock."""
    return tuple(name.format(version=version) for name in _data()["recipe"][recipe].get("needs", ()))


@cache
def layout(recipe: str) -> Layout:
    """The layout of the trees of `recipe`."""
    item = _data()["recipe"][recipe]
    return Layout(
        drop=re.compile("|".join(item.get("drop", ()))),
        places=tuple(
            Place(frozenset(place.get("packages", ())), re.compile(place["from"]), place["to"])
            for place in item["place"]
        ),
        executable=re.compile(item["executable"]) if "executable" in item else None,
        links=item.get("links", {}),
        scripts=item.get("scripts", {}),
        cut={package: re.compile(wanted) for package, wanted in item.get("cut", {}).items()},
        seed=item.get("seed", ""),
    )


@cache
def _data() -> dict[str, Any]:
    return read_toml(files("kernelworks_build.toolchain").joinpath("recipes.toml"))
