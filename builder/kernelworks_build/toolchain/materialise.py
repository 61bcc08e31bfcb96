"""From locks to content-addressed, read-only trees, each made after those that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelworks_build.action import Executor, Tree
from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import Progress
from kernelworks_build.toolchain import hip_torch
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Lock, LockSet
from kernelworks_build.toolchain.recipes import needs
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.sysroot.tree import build_sysroot
from kernelworks_build.toolchain.torch_sdk import build_torch
from kernelworks_build.toolchain.unpack import unpack_locked

__all__ = ["materialise"]


@dataclass(frozen=True)
class _Workshop:
    """What a recipe may use; `trees` holds those that it needs, by name."""

    fetcher: Fetcher
    executor: Executor
    progress: Progress
    trees: Mapping[str, Tree]


_Recipe = Callable[[Lock, _Workshop, Path], None]
"""How a tree is made of its lock in an empty folder."""


def _unpack(lock: Lock, workshop: _Workshop, into: Path) -> None:
    unpack_locked(lock, workshop.fetcher, into)


def _sysroot(_lock: Lock, workshop: _Workshop, into: Path) -> None:
    with workshop.progress.task("linking the stubs of the sysroot", None, "libraries"):
        build_sysroot(into, host=workshop.trees["host"], executor=workshop.executor)


def _torch(lock: Lock, workshop: _Workshop, into: Path) -> None:
    host, executor = workshop.trees["host"], workshop.executor
    with workshop.progress.task(f"taking the headers of {lock.name}", None, "files"):
        build_torch(into, lock, fetcher=workshop.fetcher, host=host, executor=executor)


def _hip_torch(lock: Lock, workshop: _Workshop, into: Path) -> None:
    with workshop.progress.task(f"translating the headers of {lock.name}", None, "files"):
        hip_torch.build_hip_torch(
            into, lock, fetcher=workshop.fetcher, trees=workshop.trees, executor=workshop.executor
        )


_RECIPES: dict[str, _Recipe] = {
    "cpython": _unpack,
    "cuda": _unpack,
    "cuda-12": _unpack,
    "cutlass": _unpack,
    "host": _unpack,
    "nix": _unpack,
    "python": _unpack,
    "rocm": _unpack,
    "sysroot": _sysroot,
    "tools": _unpack,
    "torch": _torch,
    hip_torch.RECIPE: _hip_torch,
    "tvm-ffi": _unpack,
}


def materialise(
    names: Iterable[str],
    *,
    locks: LockSet,
    store: TreeStore,
    fetcher: Fetcher,
    executor: Executor,
    progress: Progress,
) -> dict[str, Tree]:
    """The tree of every named toolchain; those that are missing are made, after those that they need.

    Raises:
        ToolchainError: An unknown name, an artifact that cannot be had, a tree that is not that of its lock.
    """
    found: dict[str, Tree] = {}

    def need(name: str) -> Tree:
        if name not in found:
            found[name] = store.get(locks[name].digest) or make(locks[name])
        return found[name]

    def make(lock: Lock) -> Tree:
        recipe = _recipe(lock)
        trees = {other: need(other) for other in needs(lock.recipe, lock.version)}
        workshop = _Workshop(fetcher, executor, progress, trees)
        return store.add(lambda into: recipe(lock, workshop, into), lock.digest, relock=lock.relock)

    return {name: need(name) for name in names}


def _recipe(lock: Lock) -> _Recipe:
    if lock.recipe not in _RECIPES:
        known = sorted(_RECIPES)
        raise ToolchainError(f"the lock `{lock.name}` names the unknown recipe `{lock.recipe}`", known=known)
    return _RECIPES[lock.recipe]
