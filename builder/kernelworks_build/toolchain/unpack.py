"""Trees merged from packages, by the layout of their recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain import deb, sdist, wheel
from kernelworks_build.toolchain.cut import cut
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact, Lock
from kernelworks_build.toolchain.recipes import Layout, layout
from kernelworks_build.toolchain.tree import Entry, FileEntry, LinkEntry, write

__all__ = ["unpack", "unpack_locked"]

_ENTRIES: Mapping[str, Callable[[Path], Iterable[Entry]]] = {
    "deb": deb.entries,
    "sdist": sdist.entries,
    "wheel": wheel.entries,
}
"""What reads a package, by its kind."""


def unpack_locked(lock: Lock, fetcher: Fetcher, into: Path) -> None:
    """Fetch what `lock` pins and lay it out in the empty folder `into`; of some packages only a few files are fetched.

    Raises:
        ToolchainError: A package that cannot be had, and what `unpack` says.
    """
    plan = layout(lock.recipe)
    paths = fetcher.fetch([item for item in lock.artifacts if not plan.cut_of(item)], relock=lock.relock)
    parts = {}
    for item in lock.artifacts:
        if wanted := plan.cut_of(item):
            members, _ = cut(item, wanted, fetcher, relock=lock.relock)  # the tree's digest proves what ranges gave
            parts[item] = [FileEntry(name, False, data) for name, data in members]
    with fetcher.progress.task(f"unpacking {lock.name}", None, "files"):
        unpack(paths, plan, into, parts)


def unpack(
    paths: Mapping[Artifact, Path],
    layout: Layout,
    into: Path,
    parts: Mapping[Artifact, Iterable[Entry]] | None = None,
) -> None:
    """Lay the files of the packages at `paths`, and the `parts` of others, out in the empty folder `into`.

    Raises:
        ToolchainError: A package unreadable or leaving the tree; two contents for one path; a dangling link.
    """
    packages = {item: _ENTRIES[item.kind](path) for item, path in paths.items()} | dict(parts or {})
    for artifact in sorted(packages):
        write(into, layout.place(artifact.name, packages[artifact]), artifact.file)
    scripts = (FileEntry(path, True, text.encode()) for path, text in sorted(layout.scripts.items()))
    write(into, scripts, "the recipe's scripts")
    write(into, (LinkEntry(*link) for link in sorted(layout.links.items())), "the recipe's links")
    dangling = [path for path in layout.links if not (into / path).exists()]
    if dangling:
        raise ToolchainError(f"links of the recipe lead to nothing: {', '.join(f'`{path}`' for path in dangling)}")
