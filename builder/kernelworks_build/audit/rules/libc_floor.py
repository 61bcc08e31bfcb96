"""The glibc that the binaries really need is not newer than the claimed floor."""

from __future__ import annotations

from collections.abc import Iterator

from kernelworks.model.variant_name import format_version
from kernelworks_build.audit.rule import Case, Finding, Rule

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    needed, claimed = case.facts.glibc, case.claims.platform.glibc
    if needed:
        floor = f"{format_version(claimed)} is claimed" if claimed else "none is claimed"
        yield Finding(claimed is not None and needed <= claimed, f"glibc {format_version(needed)} is needed, {floor}")


RULE = Rule("libc-floor", "the claimed libc floor is at least the glibc needed", check, absent="no binary needs glibc")
