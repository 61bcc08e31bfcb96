"""Find, verify and load published kernels: `get_kernel("org/name")`.

Importing this package imports nothing: each public name comes from its module when it is first used.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` for it would cost milliseconds
if TYPE_CHECKING:
    from typing import Any

    from kernelworks._version import __version__
    from kernelworks.api import Explanation, explain, get_kernel, get_local_kernel, has_kernel
    from kernelworks.errors import (
        HostError,
        KernelworksError,
        LoadError,
        RepositoryError,
        ResolveError,
        TransportError,
        UsageError,
        VerifyError,
    )
    from kernelworks.load import LoadedKernel, get_loaded_kernels

__all__ = [
    "Explanation",
    "HostError",
    "KernelworksError",
    "LoadError",
    "LoadedKernel",
    "RepositoryError",
    "ResolveError",
    "TransportError",
    "UsageError",
    "VerifyError",
    "__version__",
    "explain",
    "get_kernel",
    "get_loaded_kernels",
    "get_local_kernel",
    "has_kernel",
]

_HOMES = {
    "_version": ("__version__",),
    "api": ("Explanation", "explain", "get_kernel", "get_local_kernel", "has_kernel"),
    "errors": (
        "HostError",
        "KernelworksError",
        "LoadError",
        "RepositoryError",
        "ResolveError",
        "TransportError",
        "UsageError",
        "VerifyError",
    ),
    "load": ("LoadedKernel", "get_loaded_kernels"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    msg = f"module `{__name__}` has no attribute `{name}`"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
