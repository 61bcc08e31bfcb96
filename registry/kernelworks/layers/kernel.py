"""A layer of a loaded kernel, which pickles as the name of the place where another process gets it again."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernelworks import loaded as namespace
from kernelworks.errors import KernelworksError, LayerError
from kernelworks.kernel import LoadedKernel
from kernelworks.layers.repository import KernelRepository, Repository
from kernelworks.load import get_loaded_kernels

if TYPE_CHECKING:
    from torch import nn

__all__ = ["LayerKernel", "load_layer", "restoring_kernels"]

_log = logging.getLogger("kernelworks")


@dataclass(frozen=True)
class LayerKernel:
    """A layer of a loaded kernel.

    Attributes:
        layer: Its class; never instantiated.
        source: What gives it again in another process.
        backend: The backend that it is for.
        loaded: The kernel, or None where the program brought the layer by itself.
    """

    layer: type[nn.Module]
    source: Repository = field(compare=False)
    backend: str = field(compare=False)
    loaded: LoadedKernel | None = field(compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        name = self.loaded.module.__name__.rpartition(".")[2] if self.loaded else None
        return (_restored, (self.source, self.backend, name))

    def __str__(self) -> str:
        if not self.loaded or not isinstance(self.source, KernelRepository):
            return str(self.source)
        origin = self.loaded.origin
        version = "" if origin.version is None else f"version {origin.version}, "
        commit = "" if origin.commit is None else f"commit {origin.commit[:12]}, "
        return f"{self.source.what} of `{origin.subject}` ({version}{commit}variant `{self.loaded.variant.name}`)"

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {"source": str(self.source), "backend": self.backend}
        if self.loaded:
            origin = self.loaded.origin
            document |= {"subject": origin.subject, "version": origin.version, "commit": origin.commit}
            document |= {"variant": self.loaded.variant.name}
        return document


@dataclass(frozen=True)
class _Restoring:
    trust_remote_code: bool = False
    use_fallback: bool = False


_restoring: ContextVar[_Restoring] = ContextVar("_restoring", default=_Restoring())  # noqa: B039  # frozen


@contextmanager
def restoring_kernels(*, trust_remote_code: bool = False, use_fallback: bool = False) -> Iterator[None]:
    """A context that says how kernelized modules are unpickled in it.

    Args:
        trust_remote_code: Consent to run the code of their kernels. The consent of whoever wrote the pickle is not
            in it; a kernel that this user's cache has loaded before needs none.
        use_fallback: Give a module whose kernel cannot be loaded its original forward, with a warning. Otherwise
            that is a `LayerError`.
    """
    token = _restoring.set(_Restoring(trust_remote_code, use_fallback))
    try:
        yield
    finally:
        _restoring.reset(token)


def load_layer(repository: Repository, backend: str) -> LayerKernel:
    """The layer of `repository` in its variant for `backend`.

    Raises:
        KernelworksError: The loader cannot load it.
    """
    if not isinstance(repository, KernelRepository):
        return LayerKernel(repository.load(), repository, backend, None)
    return _layer_of(repository.kernel(backend), repository, backend)


def _layer_of(module: ModuleType, repository: KernelRepository, backend: str) -> LayerKernel:
    loaded = next((kernel for kernel in get_loaded_kernels() if kernel.module is module), None)
    return LayerKernel(repository.pick(module), repository.pinned(loaded.origin if loaded else None), backend, loaded)


def _restored(source: Repository, backend: str, name: str | None) -> LayerKernel | None:
    """The layer that a pickled module runs; None where it cannot be had and need not.

    Args:
        source: Where it comes from.
        backend: The backend that it is for.
        name: Of the kernel's module, which the cache of this machine may know.
    """
    how = _restoring.get()
    try:
        if name is not None and isinstance(source, KernelRepository):
            with suppress(KernelworksError, ImportError):  # not by this cache, or not by this version
                return _layer_of(importlib.import_module(f"{namespace.__name__}.{name}"), source, backend)
        return load_layer(_trusting(source) if how.trust_remote_code else source, backend)
    except (KernelworksError, FileNotFoundError) as error:
        if not how.use_fallback:
            raise LayerError(
                f"cannot restore a module that runs {source}: {error}",
                hint="for its original forward, unpickle inside"
                " `with kernelworks.restoring_kernels(use_fallback=True)`",
                source=str(source),
                backend=backend,
            ) from error
        _log.warning("a module is restored with its original forward: %s cannot be loaded: %s", source, error)
        return None


def _trusting(source: Any) -> Repository:
    consenting: Repository = replace(source, trust_remote_code=True) if hasattr(source, "trust_remote_code") else source
    return consenting
