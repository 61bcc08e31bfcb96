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
        TrustError,
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
    "TrustError",
    "UsageError",
    "VerifyError",
    "__version__",
    "explain",
    "get_kernel",
    "get_loaded_kernels",
    "get_local_kernel",
    "has_kernel",
]

_HOMES = ("_version", "errors", "load", "api")
"""The modules with the public names, the quickest to import first."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in _HOMES:
            found = vars(importlib.import_module(f"{__name__}.{home}"))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    msg = f"module `{__name__}` has no attribute `{name}`"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
