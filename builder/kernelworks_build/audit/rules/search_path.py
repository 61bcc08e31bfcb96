"""No binary brings a library search path."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks_build.audit.rule import Case, Finding, Rule

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    for elf in case.facts.elfs:
        paths = ", ".join(f"`{path}`" for path in elf.search_path)
        yield Finding(not paths, f"searches {paths}" if paths else "has neither RPATH nor RUNPATH", elf.path)


RULE = Rule("search-path", "no binary has an RPATH or RUNPATH", check)
