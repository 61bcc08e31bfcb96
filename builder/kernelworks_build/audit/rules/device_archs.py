"""The device code inside is for exactly the architectures asked for, machine code and PTX apart, and none is empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelworks_build.archs import arch_order
from kernelworks_build.audit.device_code import FatBinary
from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    asked, inside, loadable = case.claims.backend.archs, case.facts.device_archs, case.facts.loadable
    yield from _compare("machine code", asked.sass, inside.sass, [item.archs.sass for item in loadable])
    yield from _compare("PTX", asked.ptx, inside.ptx, [item.archs.ptx for item in loadable])
    yield from _kernels(loadable)


def _compare(
    kind: str, asked: tuple[str, ...], inside: tuple[str, ...], parts: list[tuple[str, ...]]
) -> Iterator[Finding]:
    if missing := [arch for arch in asked if arch not in inside]:
        found = ", ".join(inside) or "none"
        yield bad(f"no {kind} for {', '.join(missing)}, which was asked for (inside: {found})")
    if extra := [arch for arch in inside if arch not in asked]:
        yield bad(f"{kind} for {', '.join(extra)}, which was not asked for")
    if both := [arch for arch in inside if arch in asked]:
        counts = ", ".join(str(sum(arch in part for part in parts)) for arch in both)
        yield good(f"{kind} for {', '.join(both)} (in {counts} of {len(parts)} fat binaries)")


def _kernels(loadable: Sequence[FatBinary]) -> Iterator[Finding]:
    """What can be launched, where the readers tell."""
    read = [image for item in loadable for image in item.images if image.kernels is not None]
    kernels: dict[str, set[str]] = {arch: set() for arch in sorted({image.arch for image in read}, key=arch_order)}
    for image in read:
        kernels[image.arch].update(image.kernels or ())
    if empty := [arch for arch, names in kernels.items() if not names]:
        yield bad(f"the machine code for {', '.join(empty)} holds no kernel")
    if kernels:
        yield good(f"kernels: {', '.join(f'{len(names)} for {arch}' for arch, names in kernels.items())}")


RULE = Rule(
    "device-archs",
    "device code is there for exactly the architectures asked for",
    check,
    absent="no device code is asked for, and none is inside",
)
