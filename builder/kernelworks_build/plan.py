"""Manifest x matrix x locks -> BuildPlan: which variants are built, with what, and why others are not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelworks.model.variant import BackendFacts, Platform
from kernelworks.model.variant_name import format_version
from kernelworks_build import mounts
from kernelworks_build.archs import union
from kernelworks_build.capabilities import Selection, select
from kernelworks_build.errors import PlanError
from kernelworks_build.manifest import Component, Manifest
from kernelworks_build.matrix import BackendRow, Matrix, Toolkit
from kernelworks_build.planned import BuildPlan, PlannedVariant, Skipped, quoted
from kernelworks_build.targets import Target, loading, targets
from kernelworks_build.toolchain.lock import not_locked

__all__ = ["make_plan"]


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
    undeclared = dict.fromkeys(one.backend for one in manifest.components if one.backend not in manifest.backends)
    unasked = (Skipped(backend, "`backends` does not list it", by="author") for backend in undeclared)
    items = [item for found in (*by_backend, unasked) for item in found]
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
        if row is None and self.manifest.framework.compiled:
            yield Skipped(backend, f"this backend is not built yet (built are: {', '.join(self.matrix.backends)})")
            return
        for target in targets(self.manifest, self.matrix, self.locks, backend):
            if isinstance(target, Skipped):
                yield target
            elif row is None or not target.compiled:
                yield self._plan_python(backend, target)
            else:
                for toolkit in row.toolkits:
                    yield from self._plan_toolkit(row, toolkit, target)

    def _plan_python(self, backend: str, target: Target) -> PlannedVariant:
        """The variant of a kernel that is Python alone, for `backend`."""
        return PlannedVariant(
            name=target.variant_name(self.matrix, backend, None),
            framework=target.framework,
            backend=BackendFacts(backend, None),
            python_abi=target.python_abi,
            python=None,
            platform=Platform(None, None, None),
            components=(),
            archs={},
            includes={},
            headers=None,
            torch_releases=(),
            against=None,
            trees={},
            translation={},
        )

    def _plan_toolkit(self, row: BackendRow, toolkit: Toolkit, target: Target) -> Iterator[PlannedVariant | Skipped]:
        name = target.variant_name(self.matrix, row.name, toolkit.version)
        if target.table in row.not_for:
            yield Skipped(name, row.not_for[target.table])
            return
        components = self._components(row, toolkit)
        selections = {
            component.name: _select(component, toolkit, self.archs.get(row.name))
            for component in (components if toolkit.archs else ())
        }
        bare = {component: found for component, found in selections.items() if not found.archs.sass}
        translation = mounts.translation_trees(row, target, components)
        unwanted = list(self._unwanted(row, toolkit, components))
        reasons = [
            *_torch_reasons(row, toolkit, target),
            *unwanted,
            *self._reasons(toolkit, components, bare),
            *self._unlocked(row, target, translation),
        ]
        if reasons:
            hopeless = any(self._has_no_code(row, component) for component in components if component.name in bare)
            yield Skipped(name, "; ".join(reasons), faulty=hopeless, by="author" if unwanted else "builder")
            return
        for component, selection in selections.items():
            if idle := quoted(selection.without_code):
                reason = f"no code for {idle} with this toolkit ({_supported(toolkit)})"
                yield Skipped(f"{name} {component}", reason, partial=True)
        for left in self.manifest.components_of(row.name):
            if left not in components:
                reason = f"it needs toolkit {left.toolkit_minver} or newer"
                yield Skipped(f"{name} {left.name}", reason, partial=True, by="author")
        archs = {component: selection.archs for component, selection in selections.items()}
        yield PlannedVariant(
            name=name,
            framework=target.framework,
            backend=BackendFacts(row.name, toolkit.version, union(archs.values())),
            python_abi=target.python_abi,
            python=target.python,
            platform=self.matrix.platform,
            components=tuple(component.name for component in components),
            archs=archs,
            includes={component.name: mounts.include_folders(self.matrix, component) for component in components},
            headers=target.releases[0],
            torch_releases=tuple(
                one.release for one in loading(target.releases, row.name, toolkit.version) if target.table == "torch"
            ),
            against=self.matrix.frameworks[target.table],
            trees=mounts.compile_trees(self.matrix, row, toolkit, target, components),
            translation=translation,
        )

    def _unlocked(self, row: BackendRow, target: Target, translation: Iterable[str]) -> Iterator[str]:
        """What is not locked of that which this backend alone needs of a framework."""
        framework = row.framework_lock(target.table, target.releases[0])
        for name in dict.fromkeys([framework, *translation]):
            if name not in self.locks:
                yield not_locked(name)

    def _components(self, row: BackendRow, toolkit: Toolkit) -> list[Component]:
        """The components of a backend, without those that need a newer toolkit."""

        def fits(component: Component) -> bool:
            minver = component.toolkit_minver
            return not (minver and toolkit.version and toolkit.version < minver.minor)

        return [component for component in self.manifest.components_of(row.name) if fits(component)]

    def _has_no_code(self, row: BackendRow, component: Component) -> bool:
        """Whether no toolkit at all makes device code of `component`."""
        archs = self.archs.get(row.name)
        return not any(_select(component, toolkit, archs).archs.sass for toolkit in row.toolkits)

    def _unwanted(self, row: BackendRow, toolkit: Toolkit, components: Sequence[Component]) -> Iterator[str]:
        """How the manifest leaves `toolkit` out."""
        minver, maxver = self.manifest.toolkit_bounds(row.name)
        if toolkit.version and minver and toolkit.version < minver:
            yield f"toolkit {format_version(toolkit.version)} is older than minver {format_version(minver)}"
        if toolkit.version and maxver and toolkit.version > maxver:
            yield f"toolkit {format_version(toolkit.version)} is newer than maxver {format_version(maxver)}"
        if not components:
            yield "every component needs a newer toolkit"

    def _reasons(
        self, toolkit: Toolkit, components: Sequence[Component], bare: Mapping[str, Selection]
    ) -> Iterator[str]:
        """Everything that keeps a variant from being built with `toolkit`."""
        if toolkit.lock and toolkit.lock not in self.locks:
            yield not_locked(toolkit.lock)
        for name in mounts.foreign_libraries(components):
            provided = self.matrix.depends.get(name)
            if provided is None or provided.lock is None:
                yield f"`{name}` in `depends` cannot be provided: {provided.missing if provided else 'nobody packs it'}"
            elif provided.lock not in self.locks:
                yield not_locked(provided.lock)
        for component, selection in bare.items():
            idle = quoted(selection.without_code)
            yield f"no code for {idle}, so `{component}` would have none ({_supported(toolkit)})"


def _torch_reasons(row: BackendRow, toolkit: Toolkit, target: Target) -> Iterator[str]:
    """Why no torch of `target` would ever load what `toolkit` makes."""
    if toolkit.version and not loading(target.releases, row.name, toolkit.version):
        built = "; ".join(
            f"torch {one.release} with {', '.join(map(format_version, one.builds[row.name]))}"
            for one in target.releases
        )
        made = format_version(toolkit.version)
        yield f"no torch is known to be published that loads what toolkit {made} makes (known: {built})"


def _select(component: Component, toolkit: Toolkit, archs: Sequence[str] | None) -> Selection:
    try:
        return select(archs or component.capabilities, toolkit.archs, toolkit.other_archs)
    except ValueError as error:
        raise PlanError(str(error), hint=_supported(toolkit), component=component.name) from error


def _supported(toolkit: Toolkit) -> str:
    return f"supported: {', '.join(toolkit.supported)}"
