"""Whether this machine can build: one check for each thing that a build needs, each with a remedy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelworks.errors import KernelworksError
from kernelworks_build.action import Executor
from kernelworks_build.errors import ToolchainError
from kernelworks_build.matrix import Matrix
from kernelworks_build.schedule import available_memory, cores
from kernelworks_build.toolchain.locate import locate
from kernelworks_build.toolchain.lock import Artifact, LockSet, not_locked
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown, site

__all__ = ["Check", "check_up"]

_DISK = 2 << 30  # bytes: what one CUDA toolchain takes, packed and unpacked
_GIB = 1 << 30


@dataclass(frozen=True)
class Check:
    """One thing that a build needs.

    Attributes:
        ok: Whether it is there.
        found: What is there.
        remedy: What to do about it; empty where it is fine.
    """

    name: str
    ok: bool
    found: str
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        return vars(self)


def check_up(cache: Path, locks: LockSet, executor: Executor, origins: Origins) -> list[Check]:
    """Every check, those after one that fails as well."""
    checks: dict[str, Callable[[], Check]] = {
        "sandbox": lambda: _sandbox(executor),
        "memory": _memory,
        "disk": lambda: _disk(cache),
        "locks": lambda: _locks(locks),
        "wheels": lambda: _origin("wheels", "KERNELWORKS_PYPI_INDEX", locks, origins),
        "debs": lambda: _origin("debs", "KERNELWORKS_DEB_MIRROR", locks, origins),
    }
    return [_tried(name, check) for name, check in checks.items()]


def _tried(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except KernelworksError as error:
        return Check(name, ok=False, found=error.message, remedy=error.hint or "")


def _sandbox(executor: Executor) -> Check:
    executor.check()
    return Check("sandbox", ok=True, found=f"`{executor.name}` works")


def _memory() -> Check:
    """Whether the largest unit of the cheaper ABI fits."""
    needs = [row.unit_memory for row in Matrix.load().backends.values()]
    stable, full = (max(need[kind] for need in needs) for kind in ("stable", "full"))
    free = available_memory()
    units = f"{min(cores(), free // stable)} units of the stable ABI, or {min(cores(), free // full)} of the full one"
    found = f"{free / _GIB:.1f} GiB are free: {units} at once on {cores()} cores"
    return Check("memory", free >= stable, found, "" if free >= stable else f"free {stable / _GIB:.1f} GiB")


def _disk(cache: Path) -> Check:
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    remedy = "`kernel-build cache gc --older-than 30`, or name another folder in KERNELWORKS_CACHE"
    return Check("disk", free >= _DISK, f"{free / _GIB:.1f} GiB are free at `{cache}`", "" if free >= _DISK else remedy)


def _locks(locks: LockSet) -> Check:
    missing = list(_missing(locks))
    found = f"{len(locks.locks)} toolchains are locked" + "".join(f"; {one}" for one in missing)
    return Check("locks", not missing, found, "`kernel-build lock` pins what is missing" if missing else "")


def _missing(locks: LockSet) -> Iterator[str]:
    """What the matrix names and no lock has."""
    matrix = Matrix.load()
    for row in matrix.torch:
        if row.lock not in locks.locks:
            yield not_locked(row.lock)
            continue
        try:
            locks.symbol_list(row.lock)
        except ToolchainError as error:
            yield error.message
    for toolkit in (toolkit for row in matrix.backends.values() for toolkit in row.toolkits):
        if toolkit.lock and toolkit.lock not in locks.locks:
            yield not_locked(toolkit.lock)


def _origin(name: str, variable: str, locks: LockSet, origins: Origins) -> Check:
    """Whether some origin gives the first byte of an artifact of that kind."""
    kind = name.removesuffix("s")
    artifact = min((item for lock in locks.locks.values() for item in lock.artifacts if item.kind == kind), key=_size)
    refused: list[str] = []

    def on_fault(place: str, error: RemoteError) -> None:
        refused.append(f"`{site(place)}` ({error})")

    with Remote(origins.python.certificate, origins.python.proxy) as remote:
        for url in locate(artifact, origins, remote, on_fault):
            try:
                remote.read(url, 0, 1)
            except RemoteError as error:  # noqa: PERF203  # the next origin may have it
                on_fault(shown(url), error)
            else:
                return Check(name, ok=True, found=f"`{site(url)}` has `{artifact.file}`")
    remedy = f"check the network, name another origin in {variable}, or a mirror in KERNELWORKS_ARTIFACTS"
    return Check(name, ok=False, found=f"nobody gives `{artifact.file}`: {', '.join(refused)}", remedy=remedy)


def _size(artifact: Artifact) -> int:
    return artifact.size
