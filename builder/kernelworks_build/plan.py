"""Manifest x matrix x locks -> BuildPlan: which variants are built, with what, and why others are not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    """What a manifest asks for and is not built, and why; `faulty` where no builder could ever build it."""

    subject: str
    reason: str
    faulty: bool = False


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

    Raises:
        PlanError: A backend is left without any variant, for reasons that lie in the manifest.
    """
    planner = _Planner(manifest, matrix, locks, archs or {})
    by_backend = [list(planner.plan(backend)) for backend in manifest.backends]
    for found in by_backend:
        faults = [item for item in found if isinstance(item, Skipped) and item.faulty]
        if faults and not any(isinstance(item, PlannedVariant) for item in found):
            raise PlanError(
                "\n".join(f"`{item.subject}` cannot be built: {item.reason}" for item in faults),
                skipped=[vars(item) for item in faults],
            )
    items = [item for found in by_backend for item in found]
    return BuildPlan(
        tuple(item for item in items if isinstance(item, PlannedVariant)),
        tuple(item for item in items if isinstance(item, Skipped)),
    )


@dataclass(frozen=True)
class _Planner:
    manifest: Manifest
    matrix: Matrix
    locks: Collection[str]
    archs: Mapping[str, Sequence[str]]

    def plan(self, backend: str) -> Iterator[PlannedVariant | Skipped]:
        """Every variant of `backend`, and what is left out."""
        row = self.matrix.backends.get(backend)
        floor = self.manifest.stable_abi(backend)
        if row is None:
            yield Skipped(backend, f"this backend is not built yet (built are: {', '.join(self.matrix.backends)})")
        elif self.manifest.torch is None:
            yield Skipped(backend, "only kernels with a `[torch]` table are built yet")
        elif floor is None:
            yield Skipped(backend, f"full torch ABI is not built yet; set `[torch.stable-abi] {backend} = ...`")
        else:
            since, asked = self.matrix.stable_abi_since, format_version(floor)
            releases = [one for one in self.matrix.torch if one.minor >= floor and one.lock in self.locks]
            if floor < since:
                reason = f"torch {asked} has no stable ABI; the first is that of {format_version(since)}"
                yield Skipped(backend, reason, faulty=True)
            elif not releases:
                newest = max(self.matrix.torch, key=lambda one: one.minor).release
                yield Skipped(backend, f"no torch release from {asked} on is locked (newest: {newest})", faulty=True)
            else:
                for toolkit in row.toolkits:
                    yield from self._plan_toolkit(row, toolkit, floor, releases)

    def _plan_toolkit(
        self, row: BackendRow, toolkit: Toolkit, floor: Version2, releases: Sequence[TorchRow]
    ) -> Iterator[PlannedVariant | Skipped]:
        framework, platform = FrameworkFacts("torch-stable-abi", floor), self.matrix.platform
        name = str(VariantName(framework.kind, floor, None, row.name, toolkit.version, platform.cpu, platform.os))
        components = self._components(row, toolkit)
        selections = {
            component.name: _select(component, toolkit, self.archs.get(row.name))
            for component in (components if toolkit.archs else ())
        }
        bare = {component: found for component, found in selections.items() if not found.archs.sass}
        if reasons := tuple(self._reasons(row, toolkit, components, bare)):
            yield Skipped(name, "; ".join(reasons), faulty=bool(bare))
            return
        for component, selection in selections.items():
            if selection.without_code:
                idle = _quoted(selection.without_code)
                yield Skipped(f"{name} {component}", f"{idle} gives no code with this toolkit ({_supported(toolkit)})")
        archs = {component: selection.archs for component, selection in selections.items()}
        yield PlannedVariant(
            name=name,
            framework=framework,
            backend=BackendFacts(row.name, toolkit.version, _union(archs.values())),
            python_abi=PythonAbi("abi3", self.matrix.abi3),
            platform=platform,
            components=tuple(component.name for component in components),
            archs=archs,
            torch=releases[0],
            torch_releases=tuple(one.release for one in releases),
            trees=("host", "sysroot", "python", "tools", releases[0].lock, *filter(None, [toolkit.lock])),
        )

    def _components(self, row: BackendRow, toolkit: Toolkit) -> list[Component]:
        """The components of a backend, without those that need a newer toolkit."""

        def fits(component: Component) -> bool:
            minver = component.toolkit_minver
            return not (minver and toolkit.version and toolkit.version < minver.minor)

        return [component for component in self.manifest.components_of(row.name) if fits(component)]

    def _reasons(
        self,
        row: BackendRow,
        toolkit: Toolkit,
        components: Sequence[Component],
        bare: Mapping[str, Selection],
    ) -> Iterator[str]:
        """Everything that keeps a variant from being built with `toolkit`."""
        minver, maxver = self.manifest.toolkit_bounds(row.name)
        if toolkit.version and minver and toolkit.version < minver:
            yield f"toolkit {format_version(toolkit.version)} is older than minver {format_version(minver)}"
        if toolkit.version and maxver and toolkit.version > maxver:
            yield f"toolkit {format_version(toolkit.version)} is newer than maxver {format_version(maxver)}"
        if toolkit.lock and toolkit.lock not in self.locks:
            yield f"`{toolkit.lock}` is not locked; run `kernel-build lock`"
        if foreign := sorted({name for component in components for name in component.depends} - {"torch"}):
            yield f"{_quoted(foreign)} in `depends` cannot be provided yet"
        for component, selection in bare.items():
            idle = _quoted(selection.without_code)
            yield f"{idle} gives no code, so `{component}` would have none ({_supported(toolkit)})"
        if not components:
            yield "every component needs a newer toolkit"


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
