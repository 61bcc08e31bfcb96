"""The locked trees of a workplace: where each is or will be, and how those that are missing are made."""

from __future__ import annotations

from collections.abc import Collection

from kernelworks_build.action import Tree
from kernelworks_build.job import Workplace

__all__ = ["locked_tree", "make_trees"]


def locked_tree(name: str, workplace: Workplace) -> Tree:
    """The tree that is locked as `name`; it may still have to be made.

    Raises:
        ToolchainError: There is no such lock.
    """
    return workplace.store.expected(workplace.locks[name].digest)


def make_trees(names: Collection[str], workplace: Workplace) -> None:
    """Make the locked trees of these names that are missing.

    Raises:
        ToolchainError, SandboxError: As their names say.
    """
    if all(workplace.store.get(workplace.locks[name].digest) for name in names):
        return
    from kernelworks_build.toolchain.fetch import Fetcher  # noqa: PLC0415  # what downloads is seldom needed
    from kernelworks_build.toolchain.materialise import materialise  # noqa: PLC0415
    from kernelworks_build.toolchain.origins import Origins  # noqa: PLC0415

    workplace.executor.check()
    materialise(
        names,
        locks=workplace.locks,
        store=workplace.store,
        fetcher=Fetcher(workplace.cache, Origins(), workplace.progress, shared=workplace.shared),
        executor=workplace.executor,
        progress=workplace.progress,
    )
