"""Manifest x matrix x locks -> BuildPlan: which variants are built, with what, and why others are not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kernelworks.model.variant import BackendFacts, DeviceArchs, FrameworkFacts, Platform, PythonAbi
from kernelworks.model.variant_name import VariantName, Version2, format_version, parse_version
from kernelworks_build.capabilities import Selection, select
from kernelworks_build.errors import PlanError
from kernelworks_build.manifest import Component, Manifest
from kernelworks_build.matrix import BackendRow, Matrix, Toolkit, TorchRow

__all__ = ["BuildPlan", "PlannedVariant", "Skipped", "make_plan"]


@dataclass(frozen=True)
class PlannedVariant:
    """One variant to build.

    Attributes:
        name: Variant name.
        backend: The device side; `archs` are those of all components together.
        components: Names of the components that are compiled.
        archs: Component name -> the archs that this component is compiled for.
        torch: The release whose headers it is compiled against.
        torch_releases: Every locked release that it claims to load with.
        trees: Names of the locked trees it needs.
    """

    name: str
    framework: FrameworkFacts
    backend: BackendFacts
    python_abi: PythonAbi
    platform: Platform
    components: tuple[str, ...]
    archs: Mapping[str, DeviceArchs]
    torch: TorchRow
    torch_releases: tuple[str, ...]
    trees: tuple[str, ...]


@dataclass(frozen=True)
class Skipped:
    """What a manifest asks for and is not built, and why."""

    subject: str
    reason: str


@dataclass(frozen=True)
class BuildPlan:
    """Variants in the order in which they are built, and everything that is left out."""

    variants: tuple[PlannedVariant, ...]
    skipped: tuple[Skipped, ...]

    def select(self, patterns: Sequence[str]) -> BuildPlan:
        """The plan with only the variants whose name matches one of the `patterns` (shell wildcards).

        Raises:
            PlanError: A pattern matches no variant.
        """
        idle = [one for one in patterns if not any(fnmatchcase(item.name, one) for item in self.variants)]
        if idle:
            raise PlanError(
                f"no variant matches {', '.join(f'`{pattern}`' for pattern in idle)}",
                hint=f"the plan has {', '.join(f'`{item.name}`' for item in self.variants) or 'no variant at all'}",
                patterns=idle,
            )
        kept = tuple(
            item for item in self.variants if not patterns or any(fnmatchcase(item.name, one) for one in patterns)
        )
        return BuildPlan(kept, self.skipped)


def make_plan(
    manifest: Manifest,
    matrix: Matrix,
    locks: Collection[str],
    archs: Mapping[str, Sequence[str]] | None = None,
) -> BuildPlan:
    """The variants of `manifest` that `matrix` supports and for which every lock exists.

    Args:
        manifest: A checked manifest.
        matrix: What is supported.
        locks: Names of the locks at hand.
        archs: Backend -> capabilities to build for instead of those of the manifest.
    """
    variants: list[PlannedVariant] = []
    skipped: list[Skipped] = []
    for backend in manifest.backends:
        for item in _plan_backend(backend, manifest, matrix, locks, archs or {}):
            if isinstance(item, Skipped):
                skipped.append(item)
            else:
                variants.append(item)
    return BuildPlan(tuple(variants), tuple(skipped))


def _plan_backend(
    backend: str,
    manifest: Manifest,
    matrix: Matrix,
    locks: Collection[str],
    archs: Mapping[str, Sequence[str]],
) -> Iterable[PlannedVariant | Skipped]:
    row = matrix.backends.get(backend)
    if row is None:
        yield Skipped(backend, f"backend `{backend}` is not built yet (built: {', '.join(matrix.backends)})")
        return
    if manifest.torch is None:
        yield Skipped(backend, "only kernels with a `[torch]` table are built yet")
        return
    floor = manifest.stable_abi(backend)
    if floor is None:
        yield Skipped(backend, f"full torch ABI is not built yet; set `[torch.stable-abi] {backend} = ...`")
        return
    releases = [one for one in matrix.torch if one.minor >= floor and one.lock in locks]
    if not releases:
        yield Skipped(backend, f"no locked torch release is {format_version(floor)} or newer")
        return
    for toolkit in row.toolkits:
        yield from _plan_toolkit(manifest, matrix, row, toolkit, floor, releases, locks, archs.get(backend))


def _plan_toolkit(
    manifest: Manifest,
    matrix: Matrix,
    row: BackendRow,
    toolkit: Toolkit,
    floor: Version2,
    releases: Sequence[TorchRow],
    locks: Collection[str],
    archs: Sequence[str] | None,
) -> Iterable[PlannedVariant | Skipped]:
    framework = FrameworkFacts("torch-stable-abi", floor)
    name = str(
        VariantName(framework.kind, floor, None, row.name, toolkit.version, matrix.platform.cpu, matrix.platform.os)
    )
    if reason := _unfit(manifest, row, toolkit, locks):
        yield Skipped(name, reason)
        return
    chosen: dict[str, DeviceArchs] = {}
    components = [
        component
        for component in manifest.components_of(row.name)
        if not (toolkit.version and component.toolkit_minver and toolkit.version < component.toolkit_minver.minor)
    ]
    foreign = sorted({name for component in components for name in component.depends} - {"torch"})
    if foreign:
        yield Skipped(name, f"{_quoted(foreign)} in `depends` cannot be provided yet")
        return
    for component in components if toolkit.archs else ():
        selection = _select(component, toolkit, archs)
        chosen[component.name] = selection.archs
        if selection.without_code and selection.archs.sass:
            yield Skipped(
                f"{name} {component.name}",
                f"{_quoted(selection.without_code)} gives no code with this toolkit ({_supported(toolkit)})",
            )
    without = [component for component, found in chosen.items() if not found.sass]
    if without:
        yield Skipped(name, f"{_quoted(without)} would have no device code ({_supported(toolkit)})")
        return
    yield PlannedVariant(
        name=name,
        framework=framework,
        backend=BackendFacts(row.name, toolkit.version, _union(chosen.values())),
        python_abi=PythonAbi("abi3", matrix.abi3),
        platform=matrix.platform,
        components=tuple(component.name for component in components),
        archs=chosen,
        torch=releases[0],
        torch_releases=tuple(one.release for one in releases),
        trees=("host", "sysroot", "python", "tools", releases[0].lock, *filter(None, [toolkit.lock])),
    )


def _unfit(manifest: Manifest, row: BackendRow, toolkit: Toolkit, locks: Collection[str]) -> str | None:
    minver, maxver = manifest.toolkit_bounds(row.name)
    if toolkit.version and minver and toolkit.version < minver:
        return f"toolkit {format_version(toolkit.version)} is older than minver {format_version(minver)}"
    if toolkit.version and maxver and toolkit.version > maxver:
        return f"toolkit {format_version(toolkit.version)} is newer than maxver {format_version(maxver)}"
    if toolkit.lock and toolkit.lock not in locks:
        return f"`{toolkit.lock}` is not locked; run `kernel-build lock`"
    return None


def _select(component: Component, toolkit: Toolkit, archs: Sequence[str] | None) -> Selection:
    try:
        return select(archs or component.capabilities, toolkit.archs)
    except ValueError as error:
        raise PlanError(str(error), hint=_supported(toolkit), component=component.name) from error


def _union(parts: Iterable[DeviceArchs]) -> DeviceArchs:
    all_parts = list(parts)

    def merge(items: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(set(items), key=lambda text: (parse_version(text), text)))

    return DeviceArchs(
        merge(arch for part in all_parts for arch in part.sass),
        merge(arch for part in all_parts for arch in part.ptx),
    )


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f"`{item}`" for item in items)


def _supported(toolkit: Toolkit) -> str:
    return f"supported: {', '.join(toolkit.archs)}"
