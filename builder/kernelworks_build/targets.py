"""Which framework ABIs a backend of a manifest is built for, and why others are not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from kernelworks.backends import registered
from kernelworks.model.variant import FrameworkFacts, PythonAbi
from kernelworks.model.variant_name import VariantName, Version2, format_version, version_digits
from kernelworks_build.manifest import Manifest
from kernelworks_build.matrix import Matrix, TorchRow
from kernelworks_build.toolchain.lock import not_locked

__all__ = ["Skipped", "Target", "loading", "targets"]

_NO_PYTHON = PythonAbi("none", None)


@dataclass(frozen=True)
class Skipped:
    """What a manifest asks for and is not built, and why.

    Attributes:
        subject: What it is: a backend, a variant, or a variant and a component of it.
        reason: Why.
        faulty: Whether no builder could ever build it.
        partial: Whether the variant is built, and lacks it.
        by: Who leaves it out: the author, who says so, or the builder, which cannot build it.
    """

    subject: str
    reason: str
    faulty: bool = False
    partial: bool = False
    by: Literal["author", "builder"] = "builder"


@dataclass(frozen=True)
class Target:
    """One framework ABI that a backend is built for.

    Attributes:
        python: The CPython whose headers it is compiled with; None where nothing is.
        releases: The locked releases of the framework that it is for, the oldest first: its headers are compiled with.
    """

    framework: FrameworkFacts
    python_abi: PythonAbi = _NO_PYTHON
    python: Version2 | None = None
    releases: tuple[TorchRow, ...] = ()

    @property
    def table(self) -> str:
        """The framework table that it comes from: `torch` or `tvm-ffi`."""
        return "tvm-ffi" if self.framework.kind == "tvm-ffi" else "torch"

    @property
    def compiled(self) -> bool:
        """Whether there is anything to compile: else it is the same for every toolkit and platform."""
        return self.framework.kind != "none"

    def variant_name(self, matrix: Matrix, backend: str, toolkit: Version2 | None) -> str:
        """The name of its variant for `backend`, made with `toolkit`."""
        kind, version, cxx11 = self.framework.kind, self.framework.version, self.framework.cxx11
        if not self.compiled:
            return str(VariantName("torch", None, None, backend, None, None, None))
        name = str(VariantName(kind, version, cxx11, backend, toolkit, matrix.platform.cpu, matrix.platform.os))
        exact = self.python_abi.version if self.python_abi.kind == "exact" else None
        return f"{name}-cp{version_digits(exact)}" if exact else name


def loading(releases: Iterable[TorchRow], backend: str, toolkit: Version2 | None) -> tuple[TorchRow, ...]:
    """Those of `releases` of which a build is known, or nothing is, that loads what `toolkit` of `backend` makes."""
    known = registered().get(backend)  # a backend that no loader knows has no rule
    rule = known.toolkit if known else None
    return tuple(
        row
        for row in releases
        if not (rule and toolkit and backend in row.builds)
        or any(rule.accepts(toolkit, built) for built in row.builds[backend])
    )


def targets(manifest: Manifest, matrix: Matrix, locks: Collection[str], backend: str) -> Iterator[Target | Skipped]:
    """Every framework ABI of `backend`, the oldest torch first, and what is left out."""
    floor = manifest.stable_abi(backend)
    if manifest.torch_noarch:
        yield Target(FrameworkFacts("none", None))
    elif manifest.tvm_ffi:
        yield _tvm_ffi(matrix, locks, backend)
    elif floor is None:
        yield from _for_pythons(_full_abi(manifest, matrix, locks, backend), manifest, matrix, locks)
    else:
        yield from _for_pythons([_stable_abi(matrix, locks, backend, floor)], manifest, matrix, locks)


def _tvm_ffi(matrix: Matrix, locks: Collection[str], backend: str) -> Target | Skipped:
    row = matrix.tvm_ffi
    if row.lock not in locks:
        return Skipped(backend, not_locked(row.lock))
    return Target(FrameworkFacts("tvm-ffi", row.minor), releases=(row,))


def _for_pythons(
    found: Iterable[Target | Skipped], manifest: Manifest, matrix: Matrix, locks: Collection[str]
) -> Iterator[Target | Skipped]:
    """Each target that was `found`, for the stable ABI of Python or for each CPython that is asked for."""
    exact = manifest.exact_pythons()
    locked = [version for version in exact if matrix.python.get(version) in locks]
    for version in exact:
        if version not in locked:
            reason = f"its headers are not locked (known: {', '.join(map(format_version, matrix.python))})"
            yield Skipped(f"CPython {format_version(version)}", reason, faulty=True)
    for item in found:
        if isinstance(item, Skipped):
            yield item
        elif not exact:
            yield replace(item, python_abi=PythonAbi("abi3", matrix.abi3), python=matrix.abi3_headers)
        else:
            yield from (replace(item, python_abi=PythonAbi("exact", one), python=one) for one in locked)


def _stable_abi(matrix: Matrix, locks: Collection[str], backend: str, floor: Version2) -> Target | Skipped:
    since, asked = matrix.stable_abi_since, format_version(floor)
    if floor < since:
        reason = f"torch {asked} has no stable ABI; the first is that of {format_version(since)}"
        return Skipped(backend, reason, faulty=True)
    releases = tuple(row for row in matrix.torch if row.minor >= floor and row.lock in locks)
    if not releases:
        newest = matrix.newest_torch.release
        return Skipped(backend, f"no torch release from {asked} on is locked (newest: {newest})", faulty=True)
    return Target(FrameworkFacts("torch-stable-abi", floor), releases=releases)


def _full_abi(manifest: Manifest, matrix: Matrix, locks: Collection[str], backend: str) -> Iterator[Target | Skipped]:
    found = False
    for row in matrix.torch:
        unwanted, unfit = _unwanted(row, manifest), _unfit(row, locks)
        if reason := unwanted or unfit:
            yield Skipped(f"{backend}, torch {row.release}", reason, by="author" if unwanted else "builder")
            continue
        found = True
        yield Target(FrameworkFacts("torch", row.minor, cxx11=True), releases=(row,))
    if not found:
        known = ", ".join(row.release for row in matrix.torch if row.lock in locks)
        yield Skipped(backend, f"no locked torch release is left to build for (locked: {known})", faulty=True)


def _unwanted(row: TorchRow, manifest: Manifest) -> str | None:
    """How `manifest` leaves `row` out."""
    minver, maxver = manifest.torch_bounds()
    if minver and row.minor < minver:
        return f"it is older than `[torch] minver` {format_version(minver)}"
    if maxver and row.minor > maxver:
        return f"it is newer than `[torch] maxver` {format_version(maxver)}"
    return None


def _unfit(row: TorchRow, locks: Collection[str]) -> str | None:
    """Why nothing can be built for the full ABI of `row`."""
    if row.lock not in locks:
        return not_locked(row.lock)
    return None if row.full_abi else "it is locked for the stable ABI alone"
