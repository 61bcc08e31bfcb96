"""Which locked trees a variant is made with, and where the sandbox has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from kernelworks_build.manifest import Component
from kernelworks_build.matrix import BackendRow, Matrix, Toolkit
from kernelworks_build.targets import Target
from kernelworks_build.toolchain import hipify
from kernelworks_build.toolchain.sysroot import ROOT

__all__ = ["compile_trees", "foreign_libraries", "include_folders", "translation_trees"]

_HOST = "/usr"


def compile_trees(
    matrix: Matrix, row: BackendRow, toolkit: Toolkit, target: Target, components: Iterable[Component]
) -> Mapping[str, str]:
    """Names of the trees that `components` are compiled with for `target` -> where they are mounted."""
    libraries = [matrix.depends[name] for name in foreign_libraries(components)]
    places = {
        "host": _HOST,
        "sysroot": ROOT,
        target.python and matrix.python[target.python]: "/opt/python",
        "tools": "/opt/tools",
        row.framework_lock(target.table, target.releases[0]): matrix.frameworks[target.table].mount,
        toolkit.lock: row.mount,
        **{library.lock: library.mount for library in libraries},
    }
    return {lock: place for lock, place in places.items() if lock and place}


def translation_trees(row: BackendRow, target: Target, components: Iterable[Component]) -> Mapping[str, str]:
    """Names of the trees that translate the sources of `components` -> where they are mounted.

    None where the sources are in the compiler's language. The torch that they are compiled against translates them.
    """
    suffixes = {PurePosixPath(source).suffix for component in components for source in component.src}
    if suffixes.isdisjoint(row.translated_suffixes):
        return {}
    torch = row.framework_lock("torch", target.releases[0])
    return {"host": _HOST, "cpython": hipify.PYTHON, torch: hipify.TORCH}


def include_folders(matrix: Matrix, component: Component) -> tuple[str, ...]:
    """The folders with headers of the C++ libraries that `component` is compiled against."""
    libraries = [matrix.depends[name] for name in foreign_libraries([component])]
    return tuple(f"{library.mount}/{folder}" for library in libraries for folder in library.include)


def foreign_libraries(components: Iterable[Component]) -> tuple[str, ...]:
    """Names of the C++ libraries besides torch that `components` are compiled against."""
    return tuple(sorted({name for component in components for name in component.depends} - {"torch"}))
