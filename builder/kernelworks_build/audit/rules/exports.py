"""No binary exports what would be shared with another copy in the same process.

Unique symbols are one per process, so two builds of a kernel would share their static state. Strong `std::`
symbols are members of a statically linked libstdc++, which must not stand in for the process's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks.binaries.demangle import demangle
from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    for elf in case.facts.elfs:
        yield good(f"{len(elf.exports)} exported symbols looked at", elf.path)
        for symbol in elf.exports:
            name = demangle(symbol.name)
            if symbol.binding == "unique":
                yield bad(f"exports the unique symbol `{name}`; compile with -fno-gnu-unique", elf.path)
            elif symbol.binding == "global" and case.policy.cxx_runtime_symbols.fullmatch(symbol.name):
                yield bad(f"exports `{name}` of libstdc++; link with --exclude-libs,ALL", elf.path)


RULE = Rule("exports", "no exported symbol would be shared with another copy in the process", check)
