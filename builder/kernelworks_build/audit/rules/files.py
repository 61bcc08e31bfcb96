"""The folder holds source text and shared objects that can be read, nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good

__all__ = ["RULE"]

_FAULTS = {
    "binary": "is neither text nor a shared object",
    "bytecode": "is Python bytecode, which no source in the wheel vouches for",
    "link": "is a symbolic link",
    "special": "is no regular file",
}


def check(case: Case) -> Iterator[Finding]:
    kinds = [file.kind for file in case.facts.files]
    if kinds:
        yield good(f"text files: {kinds.count('text')}, shared objects: {kinds.count('elf')}")
    for file in case.facts.files:
        if fault := file.detail or _FAULTS.get(file.kind):
            yield bad(fault, file.path)


RULE = Rule("files", "only text and readable shared objects are in the package", check, absent="the folder is empty")
