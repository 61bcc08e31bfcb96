"""The names that `depends` and `python-depends` may hold: `dependencies.toml` as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kernelworks_build.toml import read_toml

__all__ = ["PythonDependency", "cxx_dependencies", "python_dependencies"]


@dataclass(frozen=True)
class PythonDependency:
    """A Python package that a kernel may ask for.

    Attributes:
        name: As in the manifest.
        package: To be installed.
        module: Import name, or None where there is nothing to import.
    """

    name: str
    package: str
    module: str | None


def cxx_dependencies() -> tuple[str, ...]:
    """The C++ libraries that a component may name, sorted."""
    return tuple(_data()["cxx"])


@cache
def python_dependencies(table: str) -> Mapping[str, PythonDependency]:
    """The Python packages by name that `table` may list: `general`, or the name of a backend."""
    return {
        row["name"]: PythonDependency(row["name"], row["package"], row.get("module"))
        for row in _data()["python"]
        if row["table"] == table
    }


@cache
def _data() -> dict[str, Any]:
    return read_toml(files("kernelworks_build.manifest") / "dependencies.toml")
