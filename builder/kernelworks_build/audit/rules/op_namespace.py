"""Ops are registered in the namespace of the build alone: two versions of a kernel would clash in any other."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good
from kernelworks_build.claims import ID_MACRO
from kernelworks_build.registrations import REMEDY_IN_CODE, REMEDY_IN_PYTHON

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    for found in case.registrations:
        ops = ", ".join(f"`{op}`" for op in found.ops) or "ops"
        place = f"{found.path}:{found.line}"
        if found.namespace in {ID_MACRO, case.claims.id}:
            yield good(f"registers {ops} in the namespace of the build", place)
        else:
            yield bad(f"registers {ops} in the namespace `{found.namespace}`, not in that of the build", place)


RULE = Rule(
    "op-namespace",
    "ops are registered in the namespace of the build",
    check,
    absent="no registration of ops was found whose namespace can be read",
    hint=f"in C++, {REMEDY_IN_CODE}; in Python, {REMEDY_IN_PYTHON}",
)
