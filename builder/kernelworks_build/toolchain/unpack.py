"""Trees merged from packages, by the layout of their recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain import deb, wheel
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.recipes import Layout
from kernelworks_build.toolchain.tree import Entry, LinkEntry, write

__all__ = ["unpack"]


def unpack(artifacts: Mapping[Artifact, Path], layout: Layout, into: Path) -> None:
    """Lay the files of all `artifacts` out in the empty folder `into`.

    Raises:
        ToolchainError: A package unreadable or leaving the tree; two contents for one path; a dangling link.
    """
    for artifact in sorted(artifacts):
        write(into, layout.place(artifact.name, _entries(artifact, artifacts[artifact])), artifact.file)
    write(into, (LinkEntry(*link) for link in sorted(layout.links.items())), "the recipe's links")
    dangling = [path for path in layout.links if not (into / path).exists()]
    if dangling:
        raise ToolchainError(f"links of the recipe lead to nothing: {', '.join(f'`{path}`' for path in dangling)}")


def _entries(artifact: Artifact, path: Path) -> Iterable[Entry]:
    return deb.entries(path) if artifact.kind == "deb" else wheel.entries(path)
