"""Which device architectures a component is compiled for.

No request means the toolkit's default list. A request is compiled where its base is in one of the toolkit's lists; what
a suffix does beside its base, the kind of the architecture says. A request that the toolkit has no code for is
reported, never dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kernelworks.model.variant import DeviceArchs
from kernelworks_build.archs import Arch, ArchKind, arch_order, kind_of
from kernelworks_build.errors import PlanError

__all__ = ["Selection", "by_backend", "select", "settled"]

_STATES = str.maketrans("", "", "+-")
"""Takes the states of features away: `:xnack+` and `:xnack-` name the same one."""


@dataclass(frozen=True)
class Selection:
    """The archs to compile for, and the requests that give no code with this toolkit, as they were written."""

    archs: DeviceArchs
    without_code: tuple[str, ...]


def select(requested: Iterable[str], default: Sequence[str], others: Sequence[str] = ()) -> Selection:
    """What to compile for when `requested` (may be empty) meets a toolkit.

    Args:
        requested: As in the manifest: `9.0`, `9.0a`, `8.0+PTX`; `gfx942`, `gfx90a:xnack+`.
        default: What the toolkit compiles for where nothing is requested, in the same form.
        others: What it has code for besides.

    Raises:
        ValueError: Texts are no architectures of this kind, or exclude each other.
    """
    kind = kind_of(default[0])
    wanted = _parse(requested, kind)
    bases = {arch.base for arch in _parse((*default, *others), kind).values()}
    served = [arch for arch in wanted.values() if arch.base in bases]
    return Selection(
        _archs(settled(served, kind) if wanted else _parse(default, kind).values()),
        tuple(text for text, arch in wanted.items() if arch.base not in bases),
    )


def by_backend(requested: Sequence[str], toolkits: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Backend -> those of `requested` that are written like its architectures; only backends that get some.

    Args:
        requested: Of any kinds: `9.0`, `gfx942`.
        toolkits: Backend -> all that its toolkits have code for.

    Raises:
        PlanError: Names every text that is for none of the backends.
    """
    kinds = {backend: kind_of(archs[0]) for backend, archs in toolkits.items() if archs}
    found = {backend: [text for text in requested if kind.parse(text)] for backend, kind in kinds.items()}
    if astray := [text for text in requested if not any(text in texts for texts in found.values())]:
        supported = "; ".join(f"`{backend}`: {', '.join(toolkits[backend])}" for backend in kinds)
        meant = [arch.name for kind in kinds.values() for text in astray if (arch := kind.parse(_spelled(text)))]
        question = f"did you mean {', '.join(f'`{name}`' for name in meant)}? " if meant else ""
        raise PlanError(
            f"{', '.join(f'`{text}`' for text in astray)} is for no backend of this kernel",
            hint=f"{question}supported for {supported}"
            if supported
            else "none of its backends is compiled for an architecture",
            archs=astray,
        )
    return {backend: texts for backend, texts in found.items() if texts}


def settled(archs: Iterable[Arch], kind: ArchKind) -> list[Arch]:
    """Those of `archs`, all of the same `kind`, that one binary holds together, sorted.

    Raises:
        ValueError: Some exclude each other.
    """
    kept: list[Arch] = []
    for base, group in groupby(_ordered(archs), key=lambda arch: arch.base):
        found = list(group)
        features = {arch.suffix.translate(_STATES) for arch in found}
        if len(features) > 1 and not kind.replaces:
            names = ", ".join(f"`{arch.name}`" for arch in found)
            msg = f"{names} exclude each other: all code for {base} in a binary names the same features, or none does"
            raise ValueError(msg)
        kept += [arch for arch in found if arch.suffix or not any(features)]
    return kept


def _spelled(text: str) -> str:
    """`sm_90a`, as compilers name it, as a manifest has it: `9.0a`."""
    return re.sub(r"(?:sm|compute)_(\d+)(\d[a-z]?)", r"\1.\2", text)


def _parse(texts: Iterable[str], kind: ArchKind) -> dict[str, Arch]:
    parsed = {text: kind.parse(text) for text in texts}
    if wrong := [text for text, arch in parsed.items() if arch is None]:
        msg = f"{', '.join(f'`{text}`' for text in wrong)} is not a {kind.what}; {kind.examples}"
        raise ValueError(msg)
    return {text: arch for text, arch in parsed.items() if arch}


def _archs(archs: Iterable[Arch]) -> DeviceArchs:
    ordered = _ordered(archs)
    return DeviceArchs(
        tuple(dict.fromkeys(arch.name for arch in ordered)),
        tuple(dict.fromkeys(arch.name for arch in ordered if arch.portable)),
    )


def _ordered(archs: Iterable[Arch]) -> list[Arch]:
    return sorted(archs, key=lambda arch: arch_order(arch.name))
