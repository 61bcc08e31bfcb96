"""The backends that the loader knows: every module of this package that holds a `BACKEND`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from kernelworks.backends.spec import Backend

__all__ = ["registered"]


@cache
def registered() -> Mapping[str, Backend]:
    """Every backend by name, the highest rank first."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    found = [module.BACKEND for module in modules if hasattr(module, "BACKEND")]
    return {backend.name: backend for backend in sorted(found, key=lambda item: (-item.rank, item.name))}
