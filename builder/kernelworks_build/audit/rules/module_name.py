"""The one extension module is named as the claims say, in its file name and in its init function."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks_build.audit.elf import ElfFacts
from kernelworks_build.audit.rule import Case, Finding, Rule, bad

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    elfs, claimed = case.facts.elfs, case.claims.python_abi.kind != "none"
    if claimed and not elfs:
        yield bad(f"the claimed module `{case.claims.id}` is missing")
    for elf in elfs:
        yield _module(elf, case.claims.id) if claimed else _no_module(elf)


def _module(elf: ElfFacts, claimed: str) -> Finding:
    stem = elf.path.partition(".")[0]
    ok = stem == claimed and elf.python_modules == (claimed,)
    names = ", ".join(f"`PyInit_{name}`" for name in elf.python_modules) or "no init function"
    claim = "" if ok else f", claimed is `{claimed}` alone"
    return Finding(ok, f"file `{stem}` with {names}{claim}", elf.path)


def _no_module(elf: ElfFacts) -> Finding:
    names = ", ".join(elf.python_modules)
    evidence = f"is the module `{names}`, claimed is none" if names else "is no Python module"
    return Finding(not names, evidence, elf.path)


RULE = Rule("module-name", "the extension module and its file are named by the variant's id", check)
