"""What the sources of a kernel include, against what is listed: neither may lack what the other has."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath

from kernelworks_build.manifest.diagnostics import Fault
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.files import well_formed
from kernelworks_build.manifest.model import SEARCHED
from kernelworks_build.manifest.positions import DocumentPath
from kernelworks_build.manifest.unlisted import unlisted_sources
from kernelworks_build.suffixes import HEADER_SUFFIXES

__all__ = ["include_faults"]

_DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*(?:include|import)[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([A-Za-z_]))', re.MULTILINE)
_UNUSED = "remove it if nothing else reads it"


@dataclass(frozen=True)
class _Source:
    """A listed file and its directives.

    Attributes:
        path: Where it is listed.
        folders: Where headers are searched in.
        near: What it includes in quotes.
        far: What it includes in angle brackets.
        computed: Whether a macro says what else it includes.
    """

    name: str
    path: DocumentPath
    folders: tuple[str, ...]
    near: tuple[str, ...]
    far: tuple[str, ...]
    computed: bool

    def headers(self, project: Path, listed: Container[str]) -> Iterator[str]:
        """The files of the project that it includes, relative to `project`."""
        beside = str(PurePosixPath(self.name).parent)
        for names, folders in ((self.near, (beside, *self.folders)), (self.far, self.folders)):
            for name in names:
                places = [normpath(f"{folder}/{name}") for folder in folders]
                inside = (one for one in places if not one.startswith(".."))
                if found := next((one for one in inside if one in listed or (project / one).is_file()), None):
                    yield found


def include_faults(document: Document, project: Path) -> Iterator[Fault]:
    """What does not fit between the lists of `document` and the directives of the sources, which are all there."""
    sources = list(_sources(document, project))
    listed = {source.name: source.path for source in reversed(sources)}
    included = {header: source for source in reversed(sources) for header in source.headers(project, listed)}
    for header, source in included.items():
        if header not in listed:
            what = f"`{source.name}` includes `{header}`, which no `src` lists, so no build sees it"
            yield Fault("unlisted-header", source.path, what, f"list `{header}`, too", "warning")
    yield from unlisted_sources(document, project, {*listed, *included})
    for path, folder in _folders(document):
        if not any(PurePosixPath(name).is_relative_to(folder) for name in listed):
            what = f"no `src` lists a file below the include folder `{folder}`, so it is empty in a build"
            yield Fault("empty-folder", path, what, "list its headers, or remove it", "warning")
    if any(source.computed for source in sources):
        return
    for header, path in listed.items():
        if header not in included and PurePosixPath(header).suffix in HEADER_SUFFIXES:
            yield Fault("unused-source", path, f"no source includes `{header}`", _UNUSED, "warning")


def _folders(document: Document) -> Iterator[tuple[DocumentPath, str]]:
    for table in document.unit_tables():
        yield from well_formed(document, *table, "include")


def _sources(document: Document, project: Path) -> Iterator[_Source]:
    for table in document.unit_tables():
        folders = (*(folder for _, folder in well_formed(document, *table, "include")), *SEARCHED)
        for path, name in well_formed(document, *table, "src"):
            text = (project / name).read_text(encoding="utf-8", errors="replace")
            near, far, computed = zip(*_DIRECTIVE.findall(text) or [("", "", "")], strict=True)
            yield _Source(name, path, folders, tuple(filter(None, near)), tuple(filter(None, far)), any(computed))
