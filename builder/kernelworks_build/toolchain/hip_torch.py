"""The torch SDK of a release for ROCm: its headers as the release's own hipify makes them, and that hipify.

There is no wheel of such a torch on the package indexes. What its own build changes in headers is made from the
locked wheel; the libraries are empty but for their SONAME, as those of every SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kernelworks_build.action import BUILD, Executor, Mount, Tree
from kernelworks_build.toolchain import hipify, recipes
from kernelworks_build.toolchain.bootstrap import run_in_host
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Lock
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.torch_sdk import make_stubs
from kernelworks_build.toolchain.unpack import unpack_locked

__all__ = ["LIBRARIES", "RECIPE", "build_hip_torch", "lock_hip_torch", "needs"]

LIBRARIES = ("c10", "c10_hip", "torch", "torch_cpu", "torch_hip", "torch_python")
"""Libraries of torch that the tree has stubs of, below `lib/`."""

RECIPE = "torch-rocm"

_SOURCE = "/src"


def needs(release: str) -> tuple[str, ...]:
    """Names of the trees that this one is made of."""
    return recipes.needs(RECIPE, release)


def build_hip_torch(into: Path, lock: Lock, *, fetcher: Fetcher, trees: Mapping[str, Tree], executor: Executor) -> None:
    """Make `include/`, `lib/` and `python/hipify/` in the empty folder `into`, out of the one wheel of `lock`.

    Args:
        into: Where it is made.
        lock: Its lock; the wheel is that of torch's own lock.
        fetcher: Has the wheel, or fetches its hipify.
        trees: Those that `needs` names.
        executor: The sandbox.

    Raises:
        ToolchainError: hipify cannot be had, or fails.
        SandboxError: The executor cannot work here.
    """
    (wheel,) = lock.artifacts
    host, python, torch = (trees[name] for name in needs(wheel.version))
    unpack_locked(lock, fetcher, into)
    run_in_host(
        hipify.command("headers", f"{_SOURCE}/include", f"{BUILD}/include"),
        into,
        *(Mount(hipify.PYTHON, python), Mount(_SOURCE, torch)),
        host=host,
        executor=executor,
        env=hipify.environment(BUILD),
    )
    make_stubs(LIBRARIES, into, host=host, executor=executor)


def lock_hip_torch(
    torch: Lock, *, store: TreeStore, fetcher: Fetcher, trees: Mapping[str, Tree], executor: Executor
) -> Lock:
    """The lock of the SDK for ROCm of the release that `torch` locks; the wheel is proved as a whole.

    Raises:
        ToolchainError: The wheel cannot be had, or hipify fails.
        SandboxError: The executor cannot work here.
    """
    (wheel,) = torch.artifacts
    fetcher.fetch([wheel], relock=torch.relock)
    lock = Lock(f"{RECIPE}-{wheel.version}", RECIPE, "", torch.artifacts)
    tree = store.add(lambda into: build_hip_torch(into, lock, fetcher=fetcher, trees=trees, executor=executor))
    return replace(lock, digest=tree.digest)
