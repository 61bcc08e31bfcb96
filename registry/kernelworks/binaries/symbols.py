"""Which torch symbols a variant imports and the installed torch does not define, known before `dlopen`.

The answer comes out of the hash tables of torch's own libraries; torch is not imported for it. It is kept for as
long as the process lives and the libraries stay as they are, and not in a file: to look up what a kernel imports
takes a millisecond, as much as to keep an answer durably.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path

from kernelworks.binaries.elf import open_elf
from kernelworks.host import HostEnv
from kernelworks.model.torch_symbols import library_patterns, symbol_pattern
from kernelworks.model.variant import Variant

__all__ = ["library_folder", "missing", "missing_of_files", "torch_folder"]

_Stamp = tuple[str, int, int]
"""A file that has not changed: path, size in bytes, time of the last change in nanoseconds."""


def missing(variant: Variant, host: HostEnv) -> tuple[str, ...]:
    """The mangled torch symbols, sorted, that the index lists for `variant` and the installed torch lacks.

    Empty where nothing is known: without torch, where its libraries are no ELF files, or where the index lists
    none (a variant of another builder: `missing_of_files` looks into its files once they are here).
    """
    return _lacking(variant.torch_symbols.names, host)


def missing_of_files(paths: Iterable[Path], host: HostEnv) -> tuple[str, ...]:
    """The mangled torch symbols, sorted, that the shared objects `paths` import and the installed torch lacks.

    Raises:
        ElfError: One of them is not a whole shared object; dlopen would end the process.
    """
    with ExitStack() as stack:
        elves = [stack.enter_context(open_elf(path)) for path in paths]
        imported = {
            item.name
            for elf in elves
            for item in elf.imports()
            if not item.weak and not item.versioned and symbol_pattern().fullmatch(item.name)
        }
        own = {name for elf in elves for name in elf.defined(imported)}  # one file of a kernel may serve another
    return _lacking(tuple(sorted(imported - own)), host)


def torch_folder() -> Path | None:
    """The folder `lib` of the installed torch; None where there is none."""
    return library_folder("torch")


def library_folder(package: str) -> Path | None:
    """The folder `lib` of an installed package, found without importing it; None where there is none."""
    module = sys.modules.get(package) or importlib.util.find_spec(package)
    origin = getattr(module, "__file__", None) or getattr(module, "origin", None)
    return Path(origin).parent / "lib" if origin else None


def _lacking(names: tuple[str, ...], host: HostEnv) -> tuple[str, ...]:
    if not names or host.torch is None:
        return ()
    return _looked_up(names, tuple(_libraries()))


def _libraries() -> Iterator[_Stamp]:
    folder = torch_folder()
    for path in sorted(path for pattern in library_patterns() for path in folder.glob(pattern)) if folder else ():
        stat = path.stat()
        yield os.fspath(path), stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=256)
def _looked_up(names: tuple[str, ...], libraries: tuple[_Stamp, ...]) -> tuple[str, ...]:
    left = set(names)
    for path, _, _ in sorted(libraries, key=lambda stamp: -stamp[1]):  # most symbols are in the largest
        if left:
            with open_elf(path) as elf:
                left -= elf.defined(left)
    return tuple(sorted(left)) if libraries else ()
