"""Which shared libraries the dynamic linker would not find: looked for where it looks, and nothing is loaded."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernelworks import settings
from kernelworks.binaries.symbols import library_folder

__all__ = ["unresolved"]

_LINKER_CACHE = Path("/etc/ld.so.cache")
_FRAMEWORKS = ("torch", "tvm_ffi")
"""Packages that open their libraries when they are imported, and kernels import them."""

_ALWAYS_SEARCHED = (Path("/lib64"), Path("/usr/lib64"), Path("/lib"), Path("/usr/lib"))


def unresolved(names: Iterable[str]) -> tuple[str, ...]:
    """Those of `names` (SONAMEs) that are nowhere: not loaded, of no framework, not where ld.so(8) searches.

    Empty without the linker's cache: on such a system nobody can tell without loading.
    """
    try:
        known = _LINKER_CACHE.read_bytes()
    except OSError:
        return ()
    return tuple(
        name
        for name in names
        if not (_is_loaded(name) or _is_listed(name, known) or any((folder / name).is_file() for folder in _searched()))
    )


def _searched() -> Iterator[Path]:
    """Folders with libraries; those of frameworks come last, for they are looked for themselves."""
    yield from settings.library_path()
    yield from _ALWAYS_SEARCHED
    yield from filter(None, map(library_folder, _FRAMEWORKS))


def _is_loaded(name: str) -> bool:
    try:
        ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def _is_listed(name: str, cache: bytes) -> bool:
    """Names in the cache are texts of their own, or the ends of paths."""
    return re.search(rb"[\0/]" + re.escape(name.encode()) + rb"\0", cache) is not None
