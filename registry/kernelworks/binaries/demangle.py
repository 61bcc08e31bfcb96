"""C++ names as people write them, through the C++ runtime of this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

__all__ = ["demangle"]


def demangle(name: str) -> str:
    """`at::f(int)` for `_ZN2at1fEi`; `name` itself where it is no C++ name or no C++ runtime is there."""
    demangler = _demangler()
    if demangler is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    address = demangler(name.encode(), None, None, ctypes.byref(status))
    if not address:
        return name
    try:
        return ctypes.string_at(address).decode()
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(address))


@cache
def _demangler() -> Callable[..., int | None] | None:
    try:
        function = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    return function
