"""Pins a toolchain anew: the newest artifacts that fit, the tree that they give, a lock file that says both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kernelworks_build.action import Executor, Tree
from kernelworks_build.progress import Progress
from kernelworks_build.toolchain import hip_torch, pin
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Lock, LockSet
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.recipes import pinned
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.sysroot.tree import lock_sysroot
from kernelworks_build.toolchain.torch_sdk import lock_torch
from kernelworks_build.toolchain.unpack import unpack_locked

__all__ = ["relock"]


def relock(
    name: str, folder: Path, *, store: TreeStore, fetcher: Fetcher, executor: Executor, progress: Progress
) -> Lock:
    """The new lock `name` (`host`, `cuda-13.0`, `torch-2.14.1`, ...), written into `folder`.

    What it needs of others comes from the locks in `folder` and the shipped ones. The artifacts are downloaded whole
    and their tree is made once, so that the lock holds digests that were seen.

    Raises:
        ToolchainError: An unknown name, or a package that cannot be had.
        SandboxError: The executor cannot work here.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def trees(names: Iterable[str]) -> dict[str, Tree]:
        locks = LockSet.load(folder)
        return materialise(names, locks=locks, store=store, fetcher=fetcher, executor=executor, progress=progress)

    recipe, _, version = name.rpartition("-")
    if name == "sysroot":
        lock = lock_sysroot(store=store, host=trees(["host"])["host"], executor=executor)
    elif recipe == "torch":
        host = trees(["host"])["host"]
        lock = lock_torch(version, folder, store=store, fetcher=fetcher, host=host, executor=executor)
    elif recipe == hip_torch.RECIPE:
        needed = trees(hip_torch.needs(version))
        torch = LockSet.load(folder)[f"torch-{version}"]
        lock = hip_torch.lock_hip_torch(torch, store=store, fetcher=fetcher, trees=needed, executor=executor)
    else:
        lock = _lock_packages(name, store=store, fetcher=fetcher, progress=progress)
    (folder / f"{name}.toml").write_text(lock.dump(), encoding="utf-8")
    return lock


def _lock_packages(name: str, *, store: TreeStore, fetcher: Fetcher, progress: Progress) -> Lock:
    wanted, origins = pinned(name), fetcher.origins
    artifacts = [
        *(deb for release, names in wanted.debs.items() for deb in pin.debs(release, names, origins, wanted.component)),
        *pin.sdists(wanted.sdists, origins),
        *pin.wheels(wanted.wheels, origins),
    ]
    lock = Lock(name, wanted.recipe, "", tuple(sorted(artifacts)))
    fetcher.fetch(lock.artifacts, relock=lock.relock)  # whole, even those that a build takes a few files of
    with progress.task(f"unpacking {name}", None, "files"):
        tree = store.add(lambda into: unpack_locked(lock, fetcher, into))
    return replace(lock, digest=tree.digest)
