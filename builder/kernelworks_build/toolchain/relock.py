"""Pins a toolchain anew: the newest artifacts that fit, the tree that they give, a lock file that says both."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from kernelworks.binaries.elf import MAGIC
from kernelworks_build.action import Executor, Tree
from kernelworks_build.progress import Progress
from kernelworks_build.toolchain import deb, hip_torch, pin
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact, Lock, LockSet, symbol_list_name, torch_lock
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.nar import hash_of_program
from kernelworks_build.toolchain.recipes import Pinned, layout, pinned
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.symbol_list import exported, write_symbols
from kernelworks_build.toolchain.sysroot.tree import lock_sysroot
from kernelworks_build.toolchain.torch_sdk import lock_torch
from kernelworks_build.toolchain.tree import FileEntry
from kernelworks_build.toolchain.unpack import unpack_locked

__all__ = ["relock"]


def relock(
    name: str, folder: Path, *, store: TreeStore, fetcher: Fetcher, executor: Executor, progress: Progress
) -> Lock:
    """The new lock `name` (`host`, `cuda-13.0`, `torch-2.14.1`, ...), written into `folder` with what belongs to it.

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
        torch = LockSet.load(folder)[torch_lock(version)]
        lock = hip_torch.lock_hip_torch(torch, store=store, fetcher=fetcher, trees=needed, executor=executor)
    else:
        wanted = pinned(name)
        lock = _lock_packages(name, wanted, store=store, fetcher=fetcher)
        if wanted.exports:
            write_symbols(folder / symbol_list_name(name), _exported_by_packages(wanted, fetcher))
    (folder / f"{name}.toml").write_text(lock.dump(), encoding="utf-8")
    return lock


def _lock_packages(name: str, wanted: Pinned, *, store: TreeStore, fetcher: Fetcher) -> Lock:
    origins = fetcher.origins
    artifacts = [
        *_newest_debs(wanted.debs, wanted, fetcher),
        *pin.sdists(wanted.sdists, origins),
        *pin.wheels(wanted.wheels, origins),
    ]
    lock = Lock(name, wanted.recipe, "", tuple(sorted(artifacts)))
    fetcher.fetch(lock.artifacts, relock=lock.relock)  # whole, even those that a build takes a few files of
    tree = store.add(lambda into: unpack_locked(lock, fetcher, into))
    seed = layout(wanted.recipe).seed
    known = hash_of_program(seed, (tree.path / seed).read_bytes()) if seed else ""
    return replace(lock, digest=tree.digest, seed=known)


def _exported_by_packages(wanted: Pinned, fetcher: Fetcher) -> set[str]:
    """What the libraries export in the packages of which `wanted` asks for nothing else."""
    packages = fetcher.fetch(_newest_debs(wanted.exports, wanted, fetcher)).values()
    contents = (item.data for path in packages for item in deb.entries(path) if isinstance(item, FileEntry))
    return set().union(*(exported(io.BytesIO(data)) for data in contents if data.startswith(MAGIC)))


def _newest_debs(debs: Mapping[str, Iterable[str]], wanted: Pinned, fetcher: Fetcher) -> Iterator[Artifact]:
    for release, names in debs.items():
        yield from pin.debs(release, names, fetcher.origins, wanted.component)
