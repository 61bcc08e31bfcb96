"""What must hold between the values of a manifest; over the document, so that no fault hides another."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic_core import PydanticCustomError

from kernelworks.model.variant_name import known_backends
from kernelworks_build.archs import arch_kinds
from kernelworks_build.capabilities import settled
from kernelworks_build.manifest.backends import COMPONENTS
from kernelworks_build.manifest.diagnostics import Fault, Severity, show
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.grammar import Version
from kernelworks_build.manifest.model import FRAMEWORKS, TorchNoarch
from kernelworks_build.manifest.positions import DocumentPath
from kernelworks_build.manifest.sources import sources_are_compiled
from kernelworks_build.manifest.table import kebab
from kernelworks_build.toml import read_toml

__all__ = ["RULES", "Rule"]

Rule = Callable[[Document], Iterator[Fault]]


def exactly_one_framework(document: Document) -> Iterator[Fault]:
    present = [key for key in FRAMEWORKS if key in document.data]
    if not present:
        choices = ", ".join(f"`[{key}]`" for key in FRAMEWORKS)
        yield Fault("no-framework", (), "the manifest lacks a framework table", f"add one of {choices}")
    for key in present[1:]:
        what = f"`[{key}]` stands beside `[{present[0]}]`"
        yield Fault("second-framework", (key,), what, "keep one framework table", at="key")


def declared_backends_are_compiled(document: Document) -> Iterator[Fault]:
    components = document.table("kernel")
    if not _is_compiled(document) or not all(_backend_of(document, name) in COMPONENTS for name in components):
        return
    compiled = {_backend_of(document, name) for name in components}
    for path, backend in document.texts("general", "backends"):
        if backend in known_backends() and backend not in compiled:
            if backend in COMPONENTS:
                hint = f'add a `[kernel.<name>]` with `backend = "{backend}"`, or remove it from `backends`'
            else:
                hint = "only `[torch-noarch]` kernels can have it; remove it from `backends`"
            yield Fault("no-component", path, f"no component is compiled for backend {show(backend)}", hint)


def components_are_declared(document: Document) -> Iterator[Fault]:
    declared = _declared(document)
    for name in document.table("kernel"):
        backend = _backend_of(document, name)
        if declared and backend in COMPONENTS and backend not in declared:
            yield Fault(
                "undeclared-backend",
                ("kernel", name, "backend"),
                f"{show(name)} is not built: `{backend}` is not among the backends of `[general]`",
                f'add `"{backend}"` to `backends`',
                "warning",
            )


def noarch_has_no_components(document: Document) -> Iterator[Fault]:
    if [key for key in FRAMEWORKS if key in document.data] != ["torch-noarch"]:
        return
    for name in document.table("kernel"):
        yield Fault(
            "unused-component",
            ("kernel", name),
            f"{show(name)} is not built: a `[torch-noarch]` kernel has no components",
            "use `[torch]`, or remove it",
            "warning",
            "key",
        )


def noarch_keys_have_dashes(document: Document) -> Iterator[Fault]:
    for key in document.table("torch-noarch"):
        if "_" in key and kebab(key) in TorchNoarch.key_examples():
            what, hint = f"{show(key)} has an underscore", f"write `{kebab(key)}`"
            yield Fault("underscore", ("torch-noarch", key), what, hint, "warning", "key")


def bounds_are_in_order(document: Document) -> Iterator[Fault]:
    for path in (("torch",), *(("general", backend) for backend in known_backends())):
        minver, maxver = (_version(document.text(*path, key)) for key in ("minver", "maxver"))
        if minver and maxver and maxver < minver:
            yield Fault(
                "empty-range",
                (*path, "maxver"),
                f"maxver {show(maxver.text)} is below minver {show(minver.text)}, so nothing would be built",
            )


def stable_abi_is_used(document: Document) -> Iterator[Fault]:
    declared = _declared(document)
    for backend in document.table("torch", "stable-abi"):
        if declared and backend in known_backends() and backend not in declared:
            yield Fault(
                "undeclared-backend",
                ("torch", "stable-abi", backend),
                f"`{backend}` is not among the backends of `[general]`, so its stable ABI is ignored",
                severity="warning",
                at="key",
            )


def lists_have_no_duplicates(document: Document) -> Iterator[Fault]:
    for path in [
        ("general", "backends"),
        *((*table, key) for table in document.unit_tables() for key in ("src", "include")),
    ]:
        first: dict[str, DocumentPath] = {}
        for place, text in document.texts(*path):
            if text in first:
                line = document.positions.value(first[text])[0]
                what, hint = f"{show(text)} is listed twice", f"it is already in line {line}"
                yield Fault("listed-twice", place, what, hint, "warning")
            first.setdefault(text, place)


def flags_are_the_authors(document: Document) -> Iterator[Fault]:
    for table in document.unit_tables():
        for key in document.table(*table):
            for path, flag in document.texts(*table, key) if key.endswith("-flags") else ():
                handed_on = re.fullmatch(_flags()["hands-on"], flag)
                singles = [flag, *(re.split("[,\\s\"']+", handed_on[1]) if handed_on else ())]
                for row in _flags()["flag"]:
                    if any(re.fullmatch(row["pattern"], single) for single in singles):
                        yield Fault(row["code"], path, f"{show(flag)}: {row['what']}", row["hint"], row["severity"])


def archs_exist(document: Document) -> Iterator[Fault]:
    for key, kind in arch_kinds().items():
        for table in document.unit_tables():
            texts = document.texts(*table, key)
            parsed = ((path, text, kind.parse(text)) for path, text in texts)
            strange = [(path, text) for path, text, arch in parsed if arch and arch.base not in kind.known]
            severity: Severity = "error" if len(strange) == len(texts) else "warning"  # there would be no device code
            for path, text in strange:
                yield Fault("unknown-arch", path, f"no toolkit compiles for {show(text)}", kind.hint, severity)


def archs_go_together(document: Document) -> Iterator[Fault]:
    for key, kind in arch_kinds().items():
        for table in document.unit_tables():
            parsed = [kind.parse(text) for _, text in document.texts(*table, key)]
            try:
                settled((arch for arch in parsed if arch), kind)
            except ValueError as error:
                yield Fault("excluded-arch", (*table, key), str(error))


RULES: tuple[Rule, ...] = (
    exactly_one_framework,
    declared_backends_are_compiled,
    components_are_declared,
    noarch_has_no_components,
    noarch_keys_have_dashes,
    bounds_are_in_order,
    stable_abi_is_used,
    lists_have_no_duplicates,
    flags_are_the_authors,
    archs_exist,
    archs_go_together,
    sources_are_compiled,
)


def _is_compiled(document: Document) -> bool:
    return any(form.compiled and key in document.data for key, form in FRAMEWORKS.items())


def _declared(document: Document) -> set[str]:
    """The declared backends; none where one is misspelt, for it may be the one that seems to be missing."""
    declared = {backend for _, backend in document.texts("general", "backends")}
    return declared if declared <= set(known_backends()) else set()


def _backend_of(document: Document, component: str) -> str | None:
    return document.text("kernel", component, "backend")


def _version(text: str | None) -> Version | None:
    with contextlib.suppress(PydanticCustomError):
        return Version.parse(text or "")
    return None


@cache
def _flags() -> dict[str, Any]:
    return read_toml(files("kernelworks_build.manifest") / "flags.toml")
