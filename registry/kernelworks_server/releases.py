"""The versions of a kernel: its branches `v1`, `v2` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelworks.transport.repo_id import version_of
from kernelworks_server.records import Ref

__all__ = ["Release", "releases"]


@dataclass(frozen=True)
class Release:
    """One version, and the commit that its branch is at."""

    number: int
    branch: str
    commit: str


def releases(refs: Sequence[Ref]) -> list[Release]:
    """The branches that are versions, newest first."""
    found = [
        Release(number, ref.name, ref.commit)
        for ref in refs
        if ref.kind == "branch" and (number := version_of(ref.name)) is not None
    ]
    return sorted(found, key=lambda release: -release.number)
