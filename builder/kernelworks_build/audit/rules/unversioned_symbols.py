"""Every undefined symbol is tied to a library by a version, or known to be torch's or the interpreter's.

This catches a libc symbol newer than the stub that was linked against: it slips through without a version.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks.binaries.demangle import demangle
from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good, unchecked

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    for elf in case.facts.elfs:
        found = case.imports(elf)
        known = {
            "torch": found.torch,
            "the toolkit": found.toolkit,
            "its OpenMP": found.openmp,
            "tvm-ffi": found.tvm_ffi,
            "the interpreter": found.python,
            "gcc": found.compiler,
        }
        counts = ", ".join(f"{len(names)} from {owner}" for owner, names in known.items())
        yield good(f"symbols without a version: {counts}", elf.path)
        lacking = [name for name in found.toolkit if name not in case.toolkit]
        if unlisted := [f"`{name}`" for name in lacking if case.is_unlisted(name)]:
            yield unchecked(f"no list has what the toolkit's library exports: {', '.join(unlisted)}", elf.path)
        for name in lacking:
            if not case.is_unlisted(name):
                yield bad(f"no library of the toolkit exports `{name}`", elf.path)
        for name in found.unknown:
            own = name.startswith("_Z") and not case.policy.cxx_runtime_symbols.fullmatch(name)
            doubt = ": declared but never defined?" if own else ""
            yield bad(f"nobody is known to bring `{demangle(name)}` (`{name}`){doubt}", elf.path)


RULE = Rule("unversioned-symbols", "every undefined symbol without a version is torch's or the interpreter's", check)
