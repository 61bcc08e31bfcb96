"""Find, verify and load published kernels: `get_kernel("org/name")`.

Importing this package imports nothing: each public name comes from its module when it is first used.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` for it would cost milliseconds
if TYPE_CHECKING:
    from typing import Any

    from kernelworks._version import __version__
    from kernelworks.api import (
        Explanation,
        explain,
        get_kernel,
        get_kernel_variants,
        get_local_kernel,
        has_kernel,
        install_kernel,
    )
    from kernelworks.dependencies import get_kernel_dep
    from kernelworks.errors import (
        HostError,
        KernelworksError,
        LayerError,
        LoadError,
        LockError,
        RepositoryError,
        ResolveError,
        TransportError,
        TrustError,
        UsageError,
        VerifyError,
    )
    from kernelworks.kernel import LoadedKernel
    from kernelworks.layers import (
        CUDAProperties,
        Device,
        FuncRepository,
        KernelizeFallback,
        KernelizeReport,
        LayerRepository,
        LocalFuncRepository,
        LocalLayerRepository,
        LockedFuncRepository,
        LockedLayerRepository,
        Mode,
        ROCMProperties,
        kernelize,
        kernelize_report,
        register_kernel_mapping,
        replace_kernel_forward_from_hub,
        restoring_kernels,
        unkernelize,
        use_kernel_forward_from_hub,
        use_kernel_func_from_hub,
        use_kernel_mapping,
        use_kernelized_func,
    )
    from kernelworks.load import get_loaded_kernels
    from kernelworks.locking.locked import get_locked_kernel, load_kernel

__all__ = [
    "CUDAProperties",
    "Device",
    "Explanation",
    "FuncRepository",
    "HostError",
    "KernelizeFallback",
    "KernelizeReport",
    "KernelworksError",
    "LayerError",
    "LayerRepository",
    "LoadError",
    "LoadedKernel",
    "LocalFuncRepository",
    "LocalLayerRepository",
    "LockError",
    "LockedFuncRepository",
    "LockedLayerRepository",
    "Mode",
    "ROCMProperties",
    "RepositoryError",
    "ResolveError",
    "TransportError",
    "TrustError",
    "UsageError",
    "VerifyError",
    "__version__",
    "explain",
    "get_kernel",
    "get_kernel_dep",
    "get_kernel_variants",
    "get_loaded_kernels",
    "get_local_kernel",
    "get_locked_kernel",
    "has_kernel",
    "install_kernel",
    "kernelize",
    "kernelize_report",
    "load_kernel",
    "register_kernel_mapping",
    "replace_kernel_forward_from_hub",
    "restoring_kernels",
    "unkernelize",
    "use_kernel_forward_from_hub",
    "use_kernel_func_from_hub",
    "use_kernel_mapping",
    "use_kernelized_func",
]

_HOMES = ("_version", "errors", "dependencies", "load", "api", "locking.locked", "layers")
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
