"""What each edition of the format changed: an older manifest, written as edition 5 with all else kept.

Only edition 5 carries its number; the others are told apart by their keys. Each step rewrites the text of one edition
as that of the next, so what is read of an older manifest is what its migrated file says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kernelworks_build.manifest import changes
from kernelworks_build.manifest.backends import COMPONENTS
from kernelworks_build.manifest.diagnostics import Diagnostic, Fault, show
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.grammar import EDITION
from kernelworks_build.manifest.model import FRAMEWORKS
from kernelworks_build.manifest.positions import DocumentPath
from kernelworks_build.toml import TOMLDecodeError, read_toml

__all__ = ["Upgraded", "edition_of", "former_key", "upgrade"]

_GENERAL: DocumentPath = ("general",)


@dataclass(frozen=True)
class Upgraded:
    """A manifest as one of edition 5.

    Attributes:
        edition: The edition of the file.
        diagnostics: What is lost or assumed on the way, at its place in the file.
    """

    document: Document
    edition: int
    diagnostics: tuple[Diagnostic, ...]


def edition_of(document: Document) -> int:
    """The edition whose keys `document` has; 5 where it carries a number, right or wrong."""
    general, components = document.table(*_GENERAL), document.table("kernel")
    if "edition" in general or not general:
        return EDITION
    if "backends" in general:
        framework = components or FRAMEWORKS.keys() & document.data.keys()
        return 4 if {"version", "license"} <= general.keys() and framework else 3
    keys = {key for name in components for key in document.table("kernel", name)}
    if "language" in keys or "universal" in document.table("torch"):
        return 1
    return 2 if "backend" in keys or not components or _changed("moved-keys").keys() & general.keys() else 1


def upgrade(document: Document, file: str, license_id: str | None = None) -> Upgraded:
    """`document`, of any edition, as one of edition 5.

    Args:
        document: A manifest.
        file: Its name in diagnostics.
        license_id: The licence where an older file names none; None: `unknown`, with a warning.
    """
    edition = edition_of(document)
    rewriting = _Rewriting(document, file, license_id)
    if edition != EDITION:
        what = f"`[general]` has no `edition`, so it is read as edition {edition}"
        hint = f"`kernel-build migrate` writes edition {EDITION}"
        rewriting.say(Fault("old-edition", _GENERAL, what, hint, "warning", "key"))
    try:
        for step in _STEPS[edition - 1 :]:
            step(rewriting)
    except TOMLDecodeError:  # a key that moved has come upon itself
        mixed = _Rewriting(document, file, license_id)
        what = f"keys of edition {edition} and of newer ones are mixed"
        mixed.say(Fault("mixed-editions", _GENERAL, what, f"write it in edition {EDITION} by hand", at="key"))
        return Upgraded(document, edition, tuple(mixed.diagnostics))
    return Upgraded(rewriting.document, edition, tuple(rewriting.diagnostics))


def former_key(path: DocumentPath) -> str | None:
    """What stands in place of the key at `path` of an older edition; None: no edition had it."""
    hint: str | None = _changed("former").get(path[0], {}).get(path[-1])
    return hint


class _Rewriting:
    """A manifest on its way to edition 5."""

    def __init__(self, document: Document, file: str, license_id: str | None) -> None:
        self.document = document
        self.license_id = license_id
        self.diagnostics: list[Diagnostic] = []
        self._file = file

    def say(self, fault: Fault) -> None:
        self.diagnostics.append(Diagnostic.of(fault, self.document.positions, self._file))

    def has(self, *path: str | int) -> bool:
        """Whether there is a statement at `path`, which can be moved or removed."""
        return path in self.document.layout.statements

    def rename(self, path: DocumentPath, *keys: str) -> None:
        self.document = changes.rename(self.document, path, *keys)

    def replace(self, path: DocumentPath, value: Any) -> None:
        self.document = changes.replace_value(self.document, path, _toml(value))

    def remove(self, *path: str | int) -> None:
        self.document = changes.remove(self.document, path)

    def insert(self, table: DocumentPath, key: str, value: Any) -> None:
        """Put `key` into a table that has a key: behind what it belongs to, else behind the first."""
        given = [path for path in self.document.layout.statements if path[:-1] == table]
        preferred = [(*table, name) for name in ("version", "name")]
        if after := next((path for path in [*preferred, *given] if path in given), None):
            self.document = changes.insert(self.document, after, f"{key} = {_toml(value)}")

    def append(self, header: str, *statements: str, like: DocumentPath = (), keys: Iterable[str] = ()) -> None:
        self.document = changes.append(self.document, header, *statements, like=like, keys=keys)


def _from_1(manifest: _Rewriting) -> None:
    """`language` becomes `backend`, of which a component has one; `universal` moves to `[general]`."""
    for name in manifest.document.table("kernel"):
        _name_backend(manifest, name)
    universal = manifest.document.value("torch", "universal")
    if isinstance(universal, bool):
        manifest.remove("torch", "universal")
        manifest.insert(_GENERAL, "universal", universal)


def _name_backend(manifest: _Rewriting, name: str) -> None:
    table: DocumentPath = ("kernel", name)
    language = manifest.document.table(*table).get("language", _changed("default-language"))
    meant = _changed("languages").get(language, ()) if isinstance(language, str) else ()
    backend, *further = meant or (language,)
    for other in further:
        _add_component(manifest, name, other)
    if manifest.has(*table, "language"):
        if meant:
            manifest.replace((*table, "language"), backend)
        manifest.rename((*table, "language"), "backend")
    else:
        manifest.insert(table, "backend", backend)
    for key, owner in _changed("component-keys").items():
        if owner != backend and manifest.has(*table, key):
            if owner not in further:
                what = f"{show(key)} is not used: {show(name)} is compiled for `{backend}` only"
                manifest.say(Fault("unused-key", (*table, key), what, severity="warning", at="key"))
            manifest.remove(*table, key)


def _add_component(manifest: _Rewriting, name: str, backend: str) -> None:
    """Give the sources of a component to another backend."""
    table, new = ("kernel", name), f"{name}_{backend}"
    if new in manifest.document.table("kernel"):
        what = f"{show(name)} is compiled for `{backend}`, too, as {show(new)}, which is there already"
        manifest.say(Fault("taken-name", ("kernel", new), what, "give it another name", at="key"))
        return
    left = {"language", *(key for key, owner in _changed("component-keys").items() if owner != backend)}
    keys = [key for key in manifest.document.table(*table) if key not in left and manifest.has(*table, key)]
    manifest.append(f"kernel.{_key(new)}", f"backend = {_toml(backend)}", like=table, keys=keys)


def _from_2(manifest: _Rewriting) -> None:
    """`[general]` lists the backends, and each has a table of its own; what is universal has a framework of its own."""
    document = manifest.document
    universal = document.value(*_GENERAL, "universal")
    backends = COMPONENTS.keys() & {document.text("kernel", name, "backend") for name in document.table("kernel")}
    for key, moved in _changed("moved-keys").items():
        if manifest.has(*_GENERAL, key):
            manifest.rename((*_GENERAL, key), *moved)
    for path, package in reversed(document.texts(*_GENERAL, "python-depends")):
        if backend := _changed("python-depends").get(package):
            manifest.remove(*path)
            manifest.insert(_GENERAL, f"{backend}.python-depends", [package])
    if isinstance(universal, bool):
        manifest.remove(*_GENERAL, "universal")
    everywhere = universal is True or not backends
    manifest.insert(_GENERAL, "backends", _changed("universal-backends") if everywhere else sorted(backends))
    if universal is True:
        _use_noarch(manifest)


def _from_3(manifest: _Rewriting) -> None:
    """`version`, `license` and a framework table must be given."""
    general = manifest.document.table(*_GENERAL)
    if "license" not in general:
        manifest.insert(_GENERAL, "license", manifest.license_id or "unknown")
        if not manifest.license_id:
            what = "`[general]` names no licence, so `unknown` stands in its place"
            manifest.say(Fault("no-license", _GENERAL, what, "add `license`", "warning", "key"))
    if "version" not in general:
        manifest.insert(_GENERAL, "version", 1)
    present = FRAMEWORKS.keys() & manifest.document.data.keys()
    if manifest.document.table("kernel"):
        return
    if "torch" in present:
        what = "`[torch]` without a component is read as `[torch-noarch]`: nothing is compiled"
        manifest.say(Fault("no-component", ("torch",), what, "add a `[kernel.<name>]`", "warning", "key"))
        _use_noarch(manifest)
    elif not present:
        manifest.append("torch-noarch")


def _from_4(manifest: _Rewriting) -> None:
    """The file carries its edition, keys have dashes, and some dependencies have other names."""
    manifest.insert(_GENERAL, "edition", EDITION)
    for key in manifest.document.table("torch-noarch"):
        if "_" in key:
            manifest.rename(("torch-noarch", key), key.replace("_", "-"))
    for name in manifest.document.table("kernel"):
        for path, dependency in manifest.document.texts("kernel", name, "depends"):
            if new := _changed("renamed-dependencies").get(dependency):
                manifest.replace(path, new)


_STEPS: tuple[Callable[[_Rewriting], None], ...] = (_from_1, _from_2, _from_3, _from_4)


def _use_noarch(manifest: _Rewriting) -> None:
    """Turn `[torch]` into `[torch-noarch]`, which lists no sources."""
    for key in _changed("compiled-keys"):
        if manifest.has("torch", key):
            if manifest.document.value("torch", key):
                what = f"{show(key)} is not used: nothing is compiled"
                manifest.say(Fault("unused-key", ("torch", key), what, "remove it", "warning", "key"))
            manifest.remove("torch", key)
    if "torch" in manifest.document.data:
        manifest.rename(("torch",), "torch-noarch")
    else:
        manifest.append("torch-noarch")


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    """A name as a key: bare where it may be."""
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)


def _changed(what: str) -> Any:
    return _data()[what]


@cache
def _data() -> dict[str, Any]:
    return read_toml(files("kernelworks_build.manifest") / "editions.toml")
