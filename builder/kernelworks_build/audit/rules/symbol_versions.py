"""No binary needs a symbol version that is newer than the policy's platform."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelworks_build.audit.elf import ElfFacts
from kernelworks_build.audit.policy import VersionNumber
from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good

__all__ = ["RULE"]

_VERSION = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)")


def check(case: Case) -> Iterator[Finding]:
    caps, libraries = case.policy.caps, case.policy.libraries(case.claims)
    for elf in case.facts.elfs:
        newest: dict[str, VersionNumber] = {}
        for need in elf.version_needs:
            family, number = _parse(need.version)
            if number and number <= caps.get(family, ()):
                newest[family] = max(number, newest.get(family, ()))
            elif need.version not in libraries.get(need.library, frozenset()):
                limit = f"cap {_text(caps[family])}" if number and family in caps else "not in the policy"
                users = _users(elf, need.version)
                yield bad(f"`{need.library}` {need.version} ({limit}) for {users}", elf.path)
        maxima = [f"{family}_{_text(number)} (cap {_text(caps[family])})" for family, number in sorted(newest.items())]
        yield good(", ".join(maxima) or "no version of glibc, libstdc++ or libgcc", elf.path)


def _parse(version: str) -> tuple[str, VersionNumber]:
    """(`GLIBC`, (2, 28)); the number is empty where `version` has another form."""
    found = _VERSION.fullmatch(version)
    return (found[1], tuple(map(int, found[2].split(".")))) if found else (version, ())


def _users(elf: ElfFacts, version: str) -> str:
    names = [f"`{symbol.name}`" for symbol in elf.undefined if symbol.version == version]
    return ", ".join(names) or "the file itself"


def _text(number: VersionNumber) -> str:
    return ".".join(map(str, number))


RULE = Rule("symbol-versions", "no symbol version is newer than the platform's glibc, libstdc++ and libgcc", check)
