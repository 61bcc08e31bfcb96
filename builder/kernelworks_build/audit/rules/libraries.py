"""`DT_NEEDED` names only what the system, the claimed framework and the claimed toolkit bring."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    allowed = case.policy.libraries(case.claims)
    for elf in case.facts.elfs:
        yield good(
            f"needs {', '.join(library for library in elf.needed if library in allowed) or 'nothing'}",
            elf.path,
        )
        for library in elf.needed:
            if library not in allowed:
                yield bad(f"needs `{library}` (allowed: {', '.join(sorted(allowed))})", elf.path)


RULE = Rule("libraries", "every needed library comes with the system, the framework or the toolkit", check)
