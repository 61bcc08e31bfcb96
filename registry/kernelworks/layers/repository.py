"""Where layers of kernels come from: a registry, a folder, or a registry as a lock file pins it.

A repository is a value that costs nothing: it is read when a layer of a model is about to be replaced. Each class
joins where the kernel is with what is taken out of it.
"""

from __future__ import annotations

import difflib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from kernelworks.api import get_kernel, get_local_kernel
from kernelworks.arguments import check_arguments
from kernelworks.errors import RepositoryError
from kernelworks.kernel import Origin

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "FuncRepository",
    "KernelRepository",
    "LayerRepository",
    "LocalFuncRepository",
    "LocalLayerRepository",
    "LockedFuncRepository",
    "LockedLayerRepository",
    "Repository",
]


class Repository(Protocol):
    """All that a mapping asks of what it maps to; programs may bring their own."""

    def load(self) -> type[nn.Module]:
        """The layer."""
        ...


class KernelRepository(ABC):
    """A repository that the loader loads the kernel from."""

    def __str__(self) -> str:
        return f"{self.what} of {self.where}"

    @property
    @abstractmethod
    def what(self) -> str:
        """What is taken out of the kernel, in words."""

    @property
    @abstractmethod
    def where(self) -> str:
        """Where the kernel is, in words."""

    def load(self) -> type[nn.Module]:
        """The layer, for the backend that torch is built for."""
        return self.pick(self.kernel(None))

    @abstractmethod
    def kernel(self, backend: str | None) -> ModuleType:
        """The module of the kernel, as `kernelworks.get_kernel` gives it."""

    @abstractmethod
    def pick(self, kernel: ModuleType) -> type[nn.Module]:
        """The layer in the module of the kernel.

        Raises:
            RepositoryError: There is none of that name.
        """

    @abstractmethod
    def pinned(self, origin: Origin | None) -> KernelRepository:
        """What gives the same layer of the kernel from `origin` in another process, with nobody's consent."""


class _Layer(KernelRepository):
    """Takes a layer out of the kernel's module `layers`."""

    layer_name: str

    def pick(self, kernel: ModuleType) -> type[nn.Module]:
        if not hasattr(kernel, "layers"):
            raise RepositoryError(f"{self} does not exist: the kernel has no attribute `layers`")
        layer: type[nn.Module] = _member(kernel.layers, self.layer_name, self)
        return layer

    def _in_registry(self, repo_id: str, **where: Any) -> KernelRepository:
        return LayerRepository(repo_id, layer_name=self.layer_name, **where)

    @property
    def what(self) -> str:
        return f"layer `{self.layer_name}`"


class _Function(KernelRepository):
    """Takes a function out of the kernel, as a layer."""

    func_name: str

    def pick(self, kernel: ModuleType) -> type[nn.Module]:
        from kernelworks.layers.functions import layer_of  # noqa: PLC0415  # the loader runs without torch

        return layer_of(_member(kernel, self.func_name, self))

    def _in_registry(self, repo_id: str, **where: Any) -> KernelRepository:
        return FuncRepository(repo_id, func_name=self.func_name, **where)

    @property
    def what(self) -> str:
        return f"function `{self.func_name}`"


class _InRegistry(KernelRepository):
    """Takes the kernel from a registry."""

    repo_id: str
    revision: str | None
    version: int | None
    trust_remote_code: bool | list[str]
    user_agent: str | Mapping[str, str] | None
    registry: str | os.PathLike[str] | None

    def __post_init__(self) -> None:
        check_arguments(self.repo_id, self.version, self.revision, None, _settled_consent(self))

    def kernel(self, backend: str | None) -> ModuleType:
        return get_kernel(
            self.repo_id,
            version=self.version,
            revision=self.revision,
            backend=backend,
            trust_remote_code=self.trust_remote_code is True,
            user_agent=self.user_agent,
            registry=self.registry,
        )

    def pinned(self, origin: Origin | None) -> KernelRepository:
        return replace(self, trust_remote_code=False, **_place(origin, self.repo_id))  # type: ignore[type-var]

    @property
    def where(self) -> str:
        at = f" version {self.version}" if self.version is not None else ""
        at = f" revision `{self.revision}`" if self.revision is not None else at
        return f"`{self.repo_id}`{at}"


class _InFolder(KernelRepository):
    """Takes the kernel from a folder."""

    repo_path: str | os.PathLike[str]

    def kernel(self, backend: str | None) -> ModuleType:
        return get_local_kernel(self.repo_path, backend=backend)

    def pinned(self, origin: Origin | None) -> KernelRepository:  # noqa: ARG002  # a folder holds one kernel
        return replace(self, repo_path=Path(self.repo_path).absolute())  # type: ignore[type-var]

    @property
    def where(self) -> str:
        return f"`{os.fspath(self.repo_path)}`"


class _Locked(KernelRepository):
    """Takes the kernel from a registry, at the commit that a lock file names."""

    repo_id: str
    lockfile: str | os.PathLike[str] | None
    trust_remote_code: bool | list[str]

    def __post_init__(self) -> None:
        check_arguments(self.repo_id, None, None, None, _settled_consent(self))

    def kernel(self, backend: str | None) -> ModuleType:
        from kernelworks.locking.locked import get_locked_kernel  # noqa: PLC0415  # most programs have no lock

        return get_locked_kernel(
            self.repo_id,
            lockfile=self.lockfile,
            backend=backend,
            trust_remote_code=self.trust_remote_code is True,
        )

    def pinned(self, origin: Origin | None) -> KernelRepository:
        return self._in_registry(self.repo_id, **_place(origin, self.repo_id))

    @abstractmethod
    def _in_registry(self, repo_id: str, **where: Any) -> KernelRepository: ...

    @property
    def where(self) -> str:
        return f"`{self.repo_id}` as locked"


@dataclass(frozen=True)
class LayerRepository(_Layer, _InRegistry):
    """The layer `layer_name` of a kernel in a registry; the arguments are those of `kernelworks.get_kernel`.

    `trust_remote_code` may also be a list of the repository ids that are consented to.
    """

    repo_id: str
    _: KW_ONLY
    layer_name: str
    revision: str | None = None
    version: int | None = None
    trust_remote_code: bool | list[str] = False
    user_agent: str | Mapping[str, str] | None = field(default=None, compare=False)
    registry: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class LocalLayerRepository(_Layer, _InFolder):
    """The layer `layer_name` of the kernel in a folder, which is one for `kernelworks.get_local_kernel`."""

    repo_path: str | os.PathLike[str]
    _: KW_ONLY
    layer_name: str


@dataclass(frozen=True)
class LockedLayerRepository(_Layer, _Locked):
    """The layer `layer_name` of a kernel in a registry, at the commit that a lock file names."""

    repo_id: str
    _: KW_ONLY
    lockfile: str | os.PathLike[str] | None = None
    layer_name: str
    trust_remote_code: bool | list[str] = False


@dataclass(frozen=True)
class FuncRepository(_Function, _InRegistry):
    """The function `func_name` of a kernel in a registry, as a layer; else as `LayerRepository`."""

    repo_id: str
    _: KW_ONLY
    func_name: str
    revision: str | None = None
    version: int | None = None
    trust_remote_code: bool | list[str] = False
    user_agent: str | Mapping[str, str] | None = field(default=None, compare=False)
    registry: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class LocalFuncRepository(_Function, _InFolder):
    """The function `func_name` of the kernel in a folder, as a layer; else as `LocalLayerRepository`."""

    repo_path: str | os.PathLike[str]
    _: KW_ONLY
    func_name: str


@dataclass(frozen=True)
class LockedFuncRepository(_Function, _Locked):
    """The function `func_name` of a kernel in a registry, as a layer; else as `LockedLayerRepository`."""

    repo_id: str
    _: KW_ONLY
    lockfile: str | os.PathLike[str] | None = None
    func_name: str
    trust_remote_code: bool | list[str] = False


def _settled_consent(repository: _InRegistry | _Locked) -> bool:
    """The consent that `repository` was made with: a list of what is consented to becomes the answer for this one."""
    given = repository.trust_remote_code
    if not isinstance(given, list):
        return given
    object.__setattr__(repository, "trust_remote_code", repository.repo_id in given)
    return repository.repo_id in given


def _place(origin: Origin | None, repo_id: str) -> dict[str, Any]:
    """The commit and the registry of `origin`; equal kernels are one, so it may be of another repository."""
    if origin is None or origin.commit is None or origin.subject != repo_id:
        return {}
    return {"version": None, "revision": origin.commit, "registry": origin.registry}


def _member(module: ModuleType, name: str, repository: KernelRepository) -> Any:
    if (found := getattr(module, name, None)) is not None:
        return found
    public = sorted(known for known in vars(module) if not known.startswith("_"))
    near = difflib.get_close_matches(name, public, 1)
    raise RepositoryError(
        f"{repository} does not exist (there are: {', '.join(f'`{known}`' for known in public)})",
        hint=f"did you mean `{near[0]}`?" if near else None,
        name=name,
    )
