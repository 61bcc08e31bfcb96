"""Every torch symbol that a binary imports is exported by every torch release that the variant claims."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks.binaries.demangle import demangle
from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good, unchecked

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    for elf in case.facts.elfs if case.torch else ():
        names = case.imports(elf).torch
        listed = [name for name in names if not case.is_unlisted(name)]
        yield good(f"{len(listed)} torch symbols looked up in torch {', '.join(case.torch)}", elf.path)
        if unlisted := [f"`{demangle(name)}`" for name in names if name not in listed]:
            yield unchecked(f"no list has torch's symbols for this backend: {', '.join(unlisted)}", elf.path)
        for name in listed:
            lacking = [release for release, exported in case.torch.items() if name not in exported]
            if lacking:
                yield bad(f"torch {', '.join(lacking)} lacks `{demangle(name)}` (`{name}`)", elf.path)


RULE = Rule(
    "torch-symbols",
    "every claimed torch release exports the torch symbols that are imported",
    check,
    absent="no torch release is claimed, or the folder holds no readable binary",
)
