"""Binaries are 64-bit shared objects for the claimed CPU and system."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks_build.audit.rule import Case, Finding, Rule

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    claimed = f"ELF64 DYN for {case.claims.platform.cpu} {case.claims.platform.os}"
    for elf in case.facts.elfs:
        found = f"ELF{elf.bits} {elf.kind} for {elf.machine} linux"
        ok = found == claimed
        yield Finding(ok, found if ok else f"{found}, claimed is {claimed}", elf.path)


RULE = Rule("platform", "binaries are shared objects for the claimed CPU and system", check)
