"""No library is shipped that must be the process's own: a second copy would not share its state."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from kernelworks_build.audit.rule import Case, Finding, Rule

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    never = case.policy.never_vendored
    sonames = {elf.path: elf.soname for elf in case.facts.elfs}
    for file in case.facts.files:
        if file.kind in {"elf", "broken", "link"}:
            names = {PurePosixPath(file.path).name, sonames.get(file.path) or ""}
            hits = [pattern for pattern in never if any(fnmatchcase(name, pattern) for name in names)]
            evidence = f"is a copy of `{hits[0]}`" if hits else f"matches none of {len(never)} patterns"
            yield Finding(not hits, evidence, file.path)


RULE = Rule("vendored", "no library of the system, the framework or the toolkit is shipped", check)
