"""Importing a verified folder as `kernelworks.loaded.<id>_<digest>`: once per process, or without a trace.

The digest in the name lets two versions of a kernel live side by side and keeps a kernel from replacing any
other module. Python's own import machinery does the rest (relative imports, reload, pickling): a finder tells
it where the kernels are, with loaders that neither read nor write bytecode.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from kernelworks import loaded
from kernelworks.errors import LoadError
from kernelworks.model.variant import Variant

__all__ = ["LoadedKernel", "Origin", "get_loaded_kernels", "load_variant"]

_PREFIX = f"{loaded.__name__}."
_DIGEST_LENGTH = 16


@dataclass(frozen=True)
class Origin:
    """Where a kernel came from: repository id or folder, version, commit; None where there is none."""

    subject: str
    version: int | None
    commit: str | None


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel that this process has loaded."""

    origin: Origin
    variant: Variant
    folder: Path
    module: ModuleType


class _SourceLoader(SourceFileLoader):
    """Compiles the source at every import: no bytecode is read or written."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Finder(MetaPathFinder):
    """Finds the kernels in `folders` (last part of their name -> folder), and their submodules only there."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002  # part of the protocol
    ) -> ModuleSpec | None:
        kernel, _, submodule = fullname.removeprefix(_PREFIX).partition(".")
        if not fullname.startswith(_PREFIX) or kernel not in self.folders:
            return None
        if not submodule:
            folder = str(self.folders[kernel])
            source = _SourceLoader(fullname, f"{folder}/__init__.py")
            return spec_from_file_location(fullname, loader=source, submodule_search_locations=[folder])
        loaders = (ExtensionFileLoader, EXTENSION_SUFFIXES), (_SourceLoader, SOURCE_SUFFIXES)
        for entry in path or ():
            if spec := FileFinder(entry, *loaders).find_spec(fullname):
                return spec
        msg = f"no module named `{fullname}`"
        raise ModuleNotFoundError(msg, name=fullname)  # else a later finder would look with other loaders


_finder = _Finder()
_kernels: dict[str, LoadedKernel] = {}
_locks: dict[str, threading.RLock] = {}


def get_loaded_kernels() -> tuple[LoadedKernel, ...]:
    """Every kernel that this process has loaded, in the order of loading."""
    return tuple(_kernels.values())


def load_variant(variant: Variant, origin: Origin, prepare: Callable[[], Path]) -> ModuleType:
    """The module of `variant`, imported once per process however many threads ask.

    Args:
        variant: What to load.
        origin: Where it comes from, for messages and for `get_loaded_kernels`.
        prepare: Returns the folder with the verified files; called only where the module is not loaded yet.

    Raises:
        LoadError: The kernel's code failed, or loads itself; `sys.modules` is as before.
    """
    name = f"{variant.id}_{variant.wheel.sha256[:_DIGEST_LENGTH]}"
    with _locks.setdefault(name, threading.RLock()):
        if kernel := _kernels.get(name):
            return kernel.module
        if name in _finder.folders:
            raise LoadError(f"`{origin.subject}` loads itself while it is being imported", variant=variant.name)
        folder = prepare()
        module = _import(name, folder, origin, variant)
        _kernels[name] = LoadedKernel(origin, variant, folder, module)
        return module


def _import(name: str, folder: Path, origin: Origin, variant: Variant) -> ModuleType:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    try:
        _finder.folders[name] = folder
        return importlib.import_module(f"{_PREFIX}{name}")
    except BaseException as error:  # SystemExit included: a kernel must not end the process that loads it
        _forget(name)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise LoadError(
            f"cannot import variant `{variant.name}` of `{origin.subject}`: {type(error).__name__}: {error}",
            hint="the cause above has the kernel's own traceback",
            subject=origin.subject,
            variant=variant.name,
            folder=str(folder),
        ) from error


def _forget(name: str) -> None:
    _finder.folders.pop(name, None)
    full = f"{_PREFIX}{name}"
    for module in [module for module in sys.modules if module == full or module.startswith(f"{full}.")]:
        del sys.modules[module]
    vars(loaded).pop(name, None)
