"""From locks to content-addressed, read-only trees, each made after those that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelworks_build.action import Executor, Tree
from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import Progress
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Lock, LockSet
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


@dataclass(frozen=True)
class _Recipe:
    """How a tree is made of its lock, and the names of the trees that must exist before."""

    build: Callable[[Lock, _Workshop, Path], None]
    needs: tuple[str, ...] = ()


def _unpack(lock: Lock, workshop: _Workshop, into: Path) -> None:
    with workshop.progress.task(f"unpacking {lock.name}", None, "files"):
        unpack_locked(lock, workshop.fetcher, into)


def _sysroot(_lock: Lock, workshop: _Workshop, into: Path) -> None:
    build_sysroot(into, host=workshop.trees["host"], executor=workshop.executor)


def _torch(lock: Lock, workshop: _Workshop, into: Path) -> None:
    host, executor = workshop.trees["host"], workshop.executor
    build_torch(into, lock, fetcher=workshop.fetcher, host=host, executor=executor)


_RECIPES = {
    "cuda": _Recipe(_unpack),
    "cuda-12": _Recipe(_unpack),
    "cutlass": _Recipe(_unpack),
    "host": _Recipe(_unpack),
    "python": _Recipe(_unpack),
    "sysroot": _Recipe(_sysroot, needs=("host",)),
    "tools": _Recipe(_unpack),
    "torch": _Recipe(_torch, needs=("host",)),
    "tvm-ffi": _Recipe(_unpack),
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
        workshop = _Workshop(fetcher, executor, progress, {other: need(other) for other in recipe.needs})
        return store.add(lambda into: recipe.build(lock, workshop, into), lock.digest, relock=lock.relock)

    return {name: need(name) for name in names}


def _recipe(lock: Lock) -> _Recipe:
    if lock.recipe not in _RECIPES:
        known = sorted(_RECIPES)
        raise ToolchainError(f"the lock `{lock.name}` names the unknown recipe `{lock.recipe}`", known=known)
    return _RECIPES[lock.recipe]
