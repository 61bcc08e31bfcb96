"""The module `kernels`, made of this package: a library that does `from kernels import get_kernel` runs on this loader.

    import kernelworks.shim
    kernelworks.shim.install()        # before anything imports `kernels`

or, for a program that cannot be changed, `python -m kernelworks.shim program.py`.

Names, parameters and exceptions are those of `kernels` 0.17: whoever swallows a `FileNotFoundError` where no variant
fits does so here; whoever asks for the version, of the module or of the distribution, is told that one.
"""

from __future__ import annotations

import functools
import importlib
import os
import runpy
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import spec_from_loader
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelworks.errors import (
    HostError,
    KernelworksError,
    LoadError,
    LockError,
    ResolveError,
    TransportError,
    TrustError,
    UsageError,
)

__all__ = ["VERSION", "install", "main", "uninstall"]

VERSION = "0.17.2"
"""Of `kernels`, whose interface this is."""

_NAME = "kernels"
_METADATA = f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {VERSION}\n"


class _NoFitError(ResolveError, FileNotFoundError):
    pass


class _ArgumentError(UsageError, ValueError):
    pass


class _NotTrustedError(TrustError, ValueError):
    pass


class _NotLockedError(LockError, ValueError):
    pass


class _CannotImportError(LoadError, ImportError):
    pass


class _NoConnectionError(TransportError, ConnectionError):
    pass


class _LacksSomethingError(HostError, RuntimeError):
    pass


_SPOKEN: dict[type[Any], type[KernelworksError]] = {
    kind.__bases__[0]: kind
    for kind in (
        _NoFitError,
        _ArgumentError,
        _NotTrustedError,
        _NotLockedError,
        _CannotImportError,
        _NoConnectionError,
        _LacksSomethingError,
    )
}
"""Our error -> the same, that is also what `kernels` raises in its place."""

_LAYERS = (
    "CUDAProperties",
    "Device",
    "FuncRepository",
    "KernelizeFallback",
    "LayerRepository",
    "LocalFuncRepository",
    "LocalLayerRepository",
    "LockedFuncRepository",
    "LockedLayerRepository",
    "Mode",
    "ROCMProperties",
    "kernelize",
    "register_kernel_mapping",
    "replace_kernel_forward_from_hub",
    "use_kernel_forward_from_hub",
    "use_kernel_func_from_hub",
    "use_kernel_mapping",
    "use_kernelized_func",
)
_LOADING = (
    "get_kernel",
    "get_kernel_dep",
    "get_kernel_variants",
    "get_loaded_kernels",
    "get_local_kernel",
    "get_locked_kernel",
    "has_kernel",
    "install_kernel",
    "load_kernel",
)
_MODULES = {_NAME: _LOADING + _LAYERS, f"{_NAME}.layer": _LAYERS}
_CLASSES = {
    "LoadedKernel": "kernelworks.kernel.LoadedKernel",
    "RepoInfo": "kernelworks.kernel.RepoInfo",
    "VariantAccepted": "kernelworks.compat.Accepted",
    "VariantRejected": "kernelworks.compat.Rejected",
}


def install() -> None:
    """Let `import kernels` give this package, and let its distribution be found.

    Raises:
        UsageError: The package `kernels` is imported already: who has imported it would keep it.
    """
    if _finder in sys.meta_path:
        return
    if _NAME in sys.modules:
        raise UsageError(
            f"`{_NAME}` is imported already",
            hint="install the shim before that: at the start of the program, or by `python -m kernelworks.shim`",
            file=getattr(sys.modules[_NAME], "__file__", None),
        )
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Let `import kernels` give what it gave before; who has imported the shim keeps it."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        for name in _MODULES:
            sys.modules.pop(name, None)


def main(arguments: Sequence[str]) -> None:
    """Run the program `arguments[0]` with the shim; the others are its arguments.

    Raises:
        UsageError: No program is named.
    """
    if not arguments:
        raise UsageError("no program is named", hint="`python -m kernelworks.shim program.py [ARGUMENT]...`")
    install()
    sys.argv = list(arguments)
    sys.path[0] = str(Path(arguments[0]).absolute().parent)
    runpy.run_path(arguments[0], run_name="__main__")


class _Distribution(Distribution):
    """What is known of `kernels` as an installed distribution."""

    def read_text(self, filename: str) -> str | None:
        return {"METADATA": _METADATA, "top_level.txt": _NAME}.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(__file__).parent / path


class _Finder(DistributionFinder, Loader):
    """Finds, and makes, the modules of `kernels`, and its distribution."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return spec_from_loader(fullname, self, is_package=fullname == _NAME) if fullname in _MODULES else None

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        return [_Distribution()] if context is None or context.name in {None, _NAME} else []

    def exec_module(self, module: ModuleType) -> None:
        names = _MODULES[module.__name__]
        module.__doc__ = __doc__
        vars(module).update({"__all__": sorted(names), "__getattr__": functools.partial(_member, module)})
        if module.__name__ == _NAME:
            vars(module)["__version__"] = VERSION


_finder = _Finder()


def _member(module: ModuleType, name: str) -> Any:
    """What `module` has by this name, made when it is first asked for."""
    if name in _MODULES[module.__name__]:
        found = getattr(importlib.import_module("kernelworks"), name)
        found = _as_kernels_does(found) if name in _LOADING else found
    elif module.__name__ == _NAME and name in _CLASSES:
        home, _, attribute = _CLASSES[name].rpartition(".")
        found = getattr(importlib.import_module(home), attribute)
    else:
        msg = f"module `{module.__name__}` of kernelworks.shim has no attribute `{name}`"
        raise AttributeError(msg)
    vars(module)[name] = found
    return found


def _as_kernels_does(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with the parameters and the exceptions of its namesake in `kernels`."""
    known = signature(function).parameters

    @functools.wraps(function)
    def call(*arguments: Any, check_arch: bool = True, **named: Any) -> Any:
        del check_arch  # device code that is not there cannot run
        if "repo_path" in named:
            named["path"] = named.pop("repo_path")
        consent = named.get("trust_remote_code")
        if isinstance(consent, list):
            named["trust_remote_code"] = (arguments[0] if arguments else named.get("repo_id")) in consent
        if "trust_remote_code" not in known:
            named.pop("trust_remote_code", None)
        try:
            return function(*arguments, **named)
        except KernelworksError as error:
            raise _spoken(error) from error

    return call


def _spoken(error: KernelworksError) -> KernelworksError:
    kind = _SPOKEN.get(type(error))
    return kind(error.message, hint=error.hint, **error.context) if kind else error


if __name__ == "__main__":
    importlib.import_module("kernelworks.shim").main(sys.argv[1:])  # this module has two names then: one is the shim
