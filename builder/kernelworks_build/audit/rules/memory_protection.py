"""No binary asks for memory that is writable and executable."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks_build.audit.rule import Case, Finding, Rule

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    for elf in case.facts.elfs:
        asked = {"an executable stack": elf.exec_stack, "relocations in its code": elf.text_relocations}
        faults = [what for what, present in asked.items() if present]
        yield Finding(not faults, f"has {' and '.join(faults) or 'neither ' + ' nor '.join(asked)}", elf.path)


RULE = Rule("memory-protection", "no binary needs memory that is writable and executable", check)
