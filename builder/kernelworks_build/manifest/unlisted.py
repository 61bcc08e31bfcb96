"""Sources that lie where a kernel's sources are and that no table lists: forgotten, or left behind."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from kernelworks_build.manifest.diagnostics import Fault
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.files import well_formed
from kernelworks_build.manifest.positions import DocumentPath
from kernelworks_build.matrix import Matrix
from kernelworks_build.suffixes import HOST_SUFFIXES

__all__ = ["unlisted_sources"]

_SHOWN = 3
_PROGRAM = re.compile(r"^\s*(?:auto|int)\s+main\s*\(", re.MULTILINE)


def unlisted_sources(document: Document, project: Path, known: Iterable[str]) -> Iterator[Fault]:
    """One fault for each folder with sources that `known`, what is listed or included, lacks.

    Only folders of listed sources are looked into, not those below: tests and copies of other projects have their own.
    """
    real = {(project / name).resolve() for name in known}  # what a listed link leads to, is listed
    for folder, tables in _folders(document).items():
        others = (path for path in _sources(project / folder) if path.resolve() not in real)
        if found := [path.relative_to(project).as_posix() for path in others if not _is_program(path)]:
            beside = " or ".join(f"`[{'.'.join(map(str, table))}]`" for table in tables[:_SHOWN])
            it = "them" if len(found) > 1 else "it"
            what = f"no `src` lists {_listed(found)}, so no build compiles {it}"
            hint = f"list {it} in {beside}, or remove what is not meant"
            yield Fault("unlisted-source", (*tables[0], "src"), what, hint, "warning", "key")


def _folders(document: Document) -> dict[str, list[DocumentPath]]:
    """The folders of listed sources, each with the tables that list some there."""
    found: dict[str, list[DocumentPath]] = defaultdict(list)
    for table in document.unit_tables():
        sources = (PurePosixPath(name) for _, name in well_formed(document, *table, "src"))
        for folder in dict.fromkeys(str(one.parent) for one in sources if one.suffix in _suffixes()):
            found[folder].append(table)
    return found


def _sources(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.suffix in _suffixes() and path.is_file()]


def _suffixes() -> frozenset[str]:
    """What some compiler takes."""
    return HOST_SUFFIXES.union(*(row.device_suffixes for row in Matrix.load().backends.values()))


def _is_program(path: Path) -> bool:
    """Whether it has a `main`: a test or a benchmark, and never a part of a library."""
    return bool(_PROGRAM.search(path.read_text(encoding="utf-8", errors="replace")))


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
