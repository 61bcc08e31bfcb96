"""What one candidate needs of this machine and does not find: looked up for it alone, for it takes files to know."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kernelworks.binaries import libraries, symbols
from kernelworks.host import HostEnv
from kernelworks.model.variant import Variant

if TYPE_CHECKING:  # few kernels need any
    from kernelworks.model.python_packages import PythonPackage

__all__ = ["Absent", "look_into", "look_up"]


@dataclass(frozen=True)
class Absent:
    """What is not there.

    Attributes:
        symbols: Mangled torch symbols, sorted.
        libraries: SONAMEs.
        packages: Python packages.
    """

    symbols: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    packages: tuple[PythonPackage, ...] = ()


def look_up(variant: Variant, host: HostEnv) -> Absent:
    """What the index says that `variant` needs, and that is absent."""
    own = {PurePosixPath(entry.path).name for entry in variant.files}
    return Absent(
        symbols.missing(variant, host),
        libraries.unresolved(name for name in variant.libraries if name not in own),
        _missing_packages(variant) if variant.python_depends else (),
    )


def look_into(files: Iterable[Path], host: HostEnv) -> Absent:
    """What the shared objects `files` need and is absent: for a variant without an index, once it is here.

    Raises:
        ElfError: One of them is not a whole shared object.
    """
    return Absent(symbols.missing_of_files(files, host))


def _missing_packages(variant: Variant) -> tuple[PythonPackage, ...]:
    from kernelworks.model.python_packages import python_package  # noqa: PLC0415  # few kernels need any

    return tuple(package for package in map(python_package, variant.python_depends) if not _is_importable(package))


def _is_importable(package: PythonPackage) -> bool:
    name = package.module
    if name is None or name in sys.modules:
        return True
    return name.isidentifier() and importlib.util.find_spec(name) is not None
