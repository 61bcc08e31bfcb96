"""What a plan is: the variants that are built, with what, and everything that is left out, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from kernelworks.model.variant import BackendFacts, DeviceArchs, FrameworkFacts, Platform, PythonAbi
from kernelworks.model.variant_name import Version2
from kernelworks_build.errors import PlanError
from kernelworks_build.matrix import Framework, TorchRow
from kernelworks_build.targets import Skipped

__all__ = ["BuildPlan", "PlannedVariant", "Skipped", "quoted"]


@dataclass(frozen=True)
class PlannedVariant:
    """One variant to build.

    Attributes:
        name: Variant name.
        backend: The device side; `archs` are those of all components together.
        components: Names of the components that are compiled.
        archs: Component name -> the archs that this component is compiled for.
        headers: The release of its framework whose headers it is compiled against; None where nothing is compiled.
        torch_releases: Every locked release of torch that it claims to load with.
        against: The framework that it is compiled against.
        python: The CPython whose headers it is compiled with; None where nothing is compiled.
        includes: Component name -> the folders with headers of the C++ libraries that it depends on.
        trees: Names of the locked trees it needs -> where they are mounted; none where nothing is compiled.
        translation: Those that translating its sources needs; none where they are compiled as they are.
    """

    name: str
    framework: FrameworkFacts
    backend: BackendFacts
    python_abi: PythonAbi
    python: Version2 | None
    platform: Platform
    components: tuple[str, ...]
    archs: Mapping[str, DeviceArchs]
    includes: Mapping[str, tuple[str, ...]]
    headers: TorchRow | None
    torch_releases: tuple[str, ...]
    against: Framework | None
    trees: Mapping[str, str]
    translation: Mapping[str, str]

    @property
    def locks(self) -> tuple[str, ...]:
        """The locks of all that decides its bytes."""
        return tuple(dict.fromkeys((*self.trees, *self.translation)))


@dataclass(frozen=True)
class BuildPlan:
    """Variants in the order in which they are built, and everything that is left out."""

    variants: tuple[PlannedVariant, ...]
    skipped: tuple[Skipped, ...]

    @property
    def reasons(self) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """What is `not built`, `left out` of what is, or `not asked for`: every reason -> for what it holds."""
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for item in self.skipped:
            how = "not asked for" if item.by == "author" else "left out" if item.partial else "not built"
            reasons = found.setdefault(how, {})
            reasons[item.reason] = (*reasons.get(item.reason, ()), item.subject)
        return found

    @property
    def asked_for(self) -> BuildPlan:
        """The plan without what its author leaves out."""
        return replace(self, skipped=tuple(item for item in self.skipped if item.by != "author"))

    def explained(self) -> Iterator[str]:
        """What is left out, in words: a line for each reason."""
        return (
            f"{how}: {quoted(subjects)}: {reason}"
            for how, reasons in self.reasons.items()
            for reason, subjects in reasons.items()
        )

    def select(self, patterns: Sequence[str]) -> BuildPlan:
        """The plan with only what matches one of the `patterns` (shell wildcards for the name of a variant).

        Raises:
            PlanError: A pattern matches no variant.
        """
        if not patterns:
            return self
        idle = [one for one in patterns if not any(fnmatchcase(item.name, one) for item in self.variants)]
        if idle:
            raise PlanError(
                "\n".join([f"no variant matches {quoted(idle)}", *self._matching(idle).explained()]),
                hint=f"the plan has {quoted(item.name for item in self.variants) or 'no variant at all'}",
                patterns=idle,
            )
        found = self._matching(patterns)
        others = [item.name for item in self.variants if item not in found.variants]
        unasked = (Skipped(name, "no `--variant` matches it", by="author") for name in others)
        return replace(found, skipped=(*found.skipped, *unasked))

    def _matching(self, patterns: Sequence[str]) -> BuildPlan:
        def wanted(subject: str) -> bool:
            name = subject.split(maxsplit=1)[0]  # the component of a variant comes after its name
            return any(fnmatchcase(name, one) for one in patterns)

        return BuildPlan(
            tuple(item for item in self.variants if wanted(item.name)),
            tuple(item for item in self.skipped if wanted(item.subject)),
        )


def quoted(items: Iterable[str]) -> str:
    """`items` in words."""
    return ", ".join(f"`{item}`" for item in items)
