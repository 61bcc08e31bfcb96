"""The one place that formats and parses variant names, such as `torch-stable-abi211-cu130-x86_64-linux`.

The name is a handle: it is the folder name that existing kernels and clients use. Its digits are ambiguous
(`cu1210`, `rocm710`), so versions are read from the explicit table in `versions.json`, never guessed.
Compatibility is decided from the facts in the index, not from here.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernelworks.errors import UsageError

__all__ = [
    "VariantName",
    "Version2",
    "format_version",
    "known_backends",
    "known_versions",
    "parse_version",
    "version_digits",
]

Version2 = tuple[int, int]

# framework prefix -> (kind, table of versions)
_FRAMEWORKS = {"torch-stable-abi": "torch", "torch": "torch", "tvm-ffi": "tvm-ffi"}


@dataclass(frozen=True, order=True)
class VariantName:
    """The parts that a variant's name spells out.

    Attributes:
        framework: `torch`, `torch-stable-abi` or `tvm-ffi`.
        framework_version: (major, minor), or None for a noarch variant (`torch-cpu`).
        cxx11: The C++ ABI tag: True for `cxx11`, False for `cxx98`, None where the name has none.
        backend: `cpu`, `cuda`, `rocm`, ...
        backend_version: Toolkit (major, minor), or None for backends without a toolkit.
        cpu: `x86_64`, `aarch64`, or None for a noarch variant.
        os: `linux`, ..., or None for a noarch variant.
    """

    framework: str
    framework_version: Version2 | None
    cxx11: bool | None
    backend: str
    backend_version: Version2 | None
    cpu: str | None
    os: str | None

    def __str__(self) -> str:
        if self.framework_version is None:
            return f"{self.framework}-{self.backend}"
        framework = f"{self.framework}{version_digits(self.framework_version)}"
        if self.cxx11 is not None:
            framework += "-cxx11" if self.cxx11 else "-cxx98"
        prefix = _table()["backend-prefixes"].get(self.backend, self.backend)
        backend = prefix if self.backend_version is None else f"{prefix}{version_digits(self.backend_version)}"
        return f"{framework}-{backend}-{self.cpu}-{self.os}"

    @classmethod
    def parse(cls, text: str) -> VariantName:
        """The parts of `text`.

        Raises:
            UsageError: Not a variant name, or a version that is not in the table; it names the nearest known.
        """
        noarch = re.fullmatch(r"(torch|tvm-ffi)-([a-z]+)", text)
        if noarch:
            _known("backend", noarch[2], [*_table()["backends"], *_table()["noarch-backends"]], text)
            return cls(noarch[1], None, None, noarch[2], None, None, None)
        whole = re.fullmatch(
            r"(torch-stable-abi|torch|tvm-ffi)(\d+)(?:-(cxx11|cxx98))?-([a-z]+)(\d*)-(x86_64|aarch64)-(linux|darwin|windows)",
            text,
        )
        if not whole:
            raise UsageError(
                f"`{text}` is not a variant name",
                hint="a name looks like torch-stable-abi211-cu130-x86_64-linux or torch-cpu",
                name=text,
            )
        framework, digits, cxx, prefix, backend_digits, cpu, os = whole.groups()
        prefixes: dict[str, str] = _table()["backend-prefixes"]
        by_prefix: dict[str, str] = {prefixes.get(known, known): known for known in _table()["backends"]}
        _known("backend", prefix, by_prefix, text)
        backend = by_prefix[prefix]
        return cls(
            framework,
            _lookup(_FRAMEWORKS[framework], digits, text),
            None if cxx is None else cxx == "cxx11",
            backend,
            _lookup(backend, backend_digits, text) if backend_digits else None,
            cpu,
            os,
        )


def version_digits(version: Version2) -> str:
    """`(13, 0)` as `130`: how a version is written in a name."""
    return f"{version[0]}{version[1]}"


def format_version(version: Version2) -> str:
    """`(13, 0)` as `13.0`."""
    return f"{version[0]}.{version[1]}"


def parse_version(text: str) -> Version2:
    """The first two numbers of a version text: `2.13.0+cpu` and `2.9.0a0` give (2, 13) and (2, 9).

    Raises:
        ValueError: The text does not start with two numbers.
    """
    found = re.match(r"(\d+)\.(\d+)", text)
    if not found:
        msg = f"`{text}` does not start with a major and a minor version"
        raise ValueError(msg)
    return int(found[1]), int(found[2])


def known_versions(what: str) -> tuple[Version2, ...]:
    """Every version of a framework or toolkit that a name can hold, the newest first; none for an unknown one."""
    return tuple(sorted(map(parse_version, _table()["versions"].get(what, ())), reverse=True))


def known_backends() -> tuple[str, ...]:
    """Every backend name, sorted."""
    return tuple(_table()["backends"])


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name("versions.json").read_bytes())
    return table


def _lookup(what: str, digits: str, name: str) -> Version2:
    known = {version_digits(parse_version(text)): text for text in _table()["versions"].get(what, [])}
    if digits not in known:
        near = difflib.get_close_matches(digits, known, 1, 0.5)
        raise UsageError(
            f"`{digits}` in `{name}` is not a known {what} version (known: {', '.join(known.values())})",
            hint=f"did you mean `{near[0]}`, {what} {known[near[0]]}?" if near else None,
            name=name,
        )
    return parse_version(known[digits])


def _known(what: str, value: str, known: list[str] | dict[str, str], name: str) -> None:
    if value not in known:
        near = difflib.get_close_matches(value, known, 1)
        raise UsageError(
            f"`{value}` in `{name}` is not a known {what} (known: {', '.join(known)})",
            hint=f"did you mean `{near[0]}`?" if near else None,
            name=name,
        )
