"""The names that `depends` (`dependencies.toml`) and `python-depends` (shared with the loader) may hold."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from kernelworks.model.python_packages import PythonPackage, known_packages
from kernelworks_build.toml import read_toml

__all__ = ["cxx_dependencies", "python_dependencies"]


def cxx_dependencies() -> tuple[str, ...]:
    """The C++ libraries that a component may name, sorted."""
    return tuple(_data()["cxx"])


@cache
def python_dependencies(table: str) -> Mapping[str, PythonPackage]:
    """The Python packages by name that `table` may list: `general`, or the name of a backend."""
    return {package.name: package for package in known_packages() if package.table == table}


@cache
def _data() -> dict[str, Any]:
    return read_toml(files("kernelworks_build.manifest") / "dependencies.toml")
