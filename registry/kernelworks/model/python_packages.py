"""The names that `python-depends` holds: `python_packages.json`, sorted by name, as frozen dataclasses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["PythonPackage", "known_packages", "python_package"]


@dataclass(frozen=True)
class PythonPackage:
    """A Python package that a kernel may need.

    Attributes:
        name: As in the manifest and the index.
        table: The table of the manifest that may list it: `general`, or the name of a backend.
        package: To be installed.
        module: Import name, or None where there is nothing to import.
    """

    name: str
    table: str
    package: str
    module: str | None


@cache
def known_packages() -> tuple[PythonPackage, ...]:
    """Every package that a manifest may name."""
    rows = json.loads(Path(__file__).with_name("python_packages.json").read_bytes())
    return tuple(PythonPackage(**row) for row in rows)


def python_package(name: str) -> PythonPackage:
    """The package that `name` means; of an unknown one, the package and the module of that name."""
    known = next((package for package in known_packages() if package.name == name), None)
    return known or PythonPackage(name, "general", name, name.replace("-", "_"))
