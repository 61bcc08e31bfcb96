"""The device code inside is for exactly the architectures asked for, machine code and PTX apart."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks_build.audit.fatbin import LOADABLE
from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    asked, inside = case.claims.backend.archs, case.facts.device_archs
    loadable = [item.archs for item in case.facts.fat_binaries if item.section == LOADABLE]
    yield from _compare("SASS", asked.sass, inside.sass, [item.sass for item in loadable])
    yield from _compare("PTX", asked.ptx, inside.ptx, [item.ptx for item in loadable])


def _compare(
    kind: str, asked: tuple[str, ...], inside: tuple[str, ...], parts: list[tuple[str, ...]]
) -> Iterator[Finding]:
    if missing := [arch for arch in asked if arch not in inside]:
        found = ", ".join(inside) or "none"
        yield bad(f"no {kind} for {', '.join(missing)}, which was asked for (inside: {found})")
    if extra := [arch for arch in inside if arch not in asked]:
        yield bad(f"{kind} for {', '.join(extra)}, which was not asked for")
    if both := [arch for arch in inside if arch in asked]:
        counts = [f"{arch} (in {sum(arch in part for part in parts)} of {len(parts)})" for arch in both]
        yield good(f"{kind} for {', '.join(counts)} fat binaries")


RULE = Rule(
    "device-archs",
    "device code is there for exactly the architectures asked for",
    check,
    absent="no device code is asked for, and none is inside",
)
