"""The files that a manifest names: which they are, and whether they are there and inside the project."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pydantic_core import PydanticCustomError

from kernelworks.errors import RepositoryError
from kernelworks.model.decode import Node
from kernelworks_build.manifest.diagnostics import Fault, nearest, show
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.grammar import kernel_name, project_path
from kernelworks_build.manifest.model import FRAMEWORKS, Framework, Manifest
from kernelworks_build.manifest.positions import DocumentPath

__all__ = ["GENERATED_MODULE", "MANIFEST", "file_faults", "source_files", "well_formed"]

MANIFEST = "build.toml"
GENERATED_MODULE = "_ops.py"
"""The module of the Python package that each build writes itself."""


def source_files(manifest: Manifest, project: Path) -> tuple[str, ...]:
    """Every file of the kernel: the manifest, all `src`, the Python package; sorted, relative, with `/`.

    Args:
        manifest: A manifest that `read_manifest` accepted.
        project: The folder that it was read from.
    """
    return tuple(
        sorted(
            {
                MANIFEST,
                *manifest.declared_sources(),
                *_package_files(project, manifest.package_folder, manifest.framework.extensions),
            }
        )
    )


def file_faults(document: Document, project: Path) -> Iterator[Fault]:
    """Every fault of the files that `document` names."""
    for table in document.unit_tables():
        for path, text in well_formed(document, *table, "src"):
            yield from _source_faults(path, text, project)
        for path, text in well_formed(document, *table, "include"):
            yield from _folder_faults(path, text, project)
    for key, form in FRAMEWORKS.items():
        if key in document.data:
            yield from _package_faults(document, form, project)


def well_formed(document: Document, *path: str | int) -> Iterator[tuple[DocumentPath, str]]:
    """The paths of the list at `path` that are ones, in normal form, each with where it stands."""
    for place, text in document.texts(*path):
        with contextlib.suppress(PydanticCustomError):
            yield place, project_path(text)


def _source_faults(path: DocumentPath, text: str, project: Path) -> Iterator[Fault]:
    place = project / text
    if leaves := _leaving(place, project):
        yield Fault("leaves-project", path, f"`{text}` {leaves}", "copy the file into the project")
    elif place.is_dir():
        yield Fault("not-a-file", path, f"`{text}` is a folder", "list its files one by one")
    elif not place.exists():
        yield Fault("missing-source", path, f"`{text}` does not exist", _similar(text, project))
    elif not place.is_file():
        yield Fault("not-a-file", path, f"`{text}` is not a regular file")


def _folder_faults(path: DocumentPath, text: str, project: Path) -> Iterator[Fault]:
    place = project / text
    if leaves := _leaving(place, project):
        yield Fault("leaves-project", path, f"`{text}` {leaves}", "copy the headers into the project")
    elif not place.exists():
        yield Fault("missing-folder", path, f"the include folder `{text}` does not exist", _similar(text, project))
    elif not place.is_dir():
        yield Fault("not-a-folder", path, f"`{text}` is a file, not a folder", "`include` takes the folders of headers")


def _package_faults(document: Document, framework: type[Framework], project: Path) -> Iterator[Fault]:
    path = ("general", "name")
    name = document.text(*path)
    try:
        folder = f"{framework.python_root}/{kernel_name(name or '').replace('-', '_')}"
    except PydanticCustomError:
        return
    init = f"{folder}/__init__.py"
    if not (project / init).is_file():
        yield Fault(
            "missing-package",
            path,
            f"the Python package of the kernel is missing: `{init}` does not exist",
            _similar(folder, project),
        )
        return
    for file in _package_files(project, folder, None):
        if leaves := _leaving(project / file, project):
            yield Fault("leaves-project", path, f"`{file}` {leaves}", "copy the file into the project")
        elif not _loads(file.removeprefix(f"{folder}/")):
            hint = "name it so that it is printable, at most 255 bytes in the package, without colon, quote, backslash"
            yield Fault("unloadable-file", path, f"{show(file)} would not be loaded from a published kernel", hint)
        elif (project / file).is_dir():
            what = f"`{file}` is a linked folder, which is not shipped"
            yield Fault("linked-folder", path, what, "copy the folder into the package")
    if (project / folder / GENERATED_MODULE).exists():
        what = f"`{folder}/{GENERATED_MODULE}` is not used: each build writes its own"
        yield Fault("unused-file", path, what, "remove it", "warning")


def _package_files(project: Path, folder: str, extensions: frozenset[str] | None) -> Iterator[str]:
    """The files of the Python package with one of `extensions`; for None all, and linked folders."""
    for place in (project / folder).rglob("*"):
        relative = place.relative_to(project / folder)
        if relative.as_posix() == GENERATED_MODULE or "__pycache__" in relative.parts:
            continue
        if place.is_dir() and not (extensions is None and place.is_symlink()):
            continue
        if extensions is None or any(place.name.endswith(f".{extension}") for extension in extensions):
            yield f"{folder}/{relative.as_posix()}"


def _loads(path: str) -> bool:
    """Whether an index may list `path`: the loader's own rule."""
    try:
        Node(path, "", "").relative_path()
    except RepositoryError:
        return False
    return True


def _leaving(place: Path, project: Path) -> str | None:
    """How a symbolic link on the way to `place` leaves `project`, or None."""
    target, root = os.path.realpath(place), os.path.realpath(project)
    if target == root or target.startswith(root + os.sep):
        return None
    return "leaves the project through a symbolic link"


def _similar(text: str, project: Path) -> str:
    """What to do about a path that is not there: the most similar one that is, if any."""
    if re.search(r"[*?\[]", text):
        return "patterns are not expanded; list the files one by one"
    if submodule := _submodule(project / text):
        return f"`{submodule}` is a git submodule: run `git submodule update --init --recursive`"
    path = PurePosixPath(text)
    parent = next(parent for parent in path.parents if (project / parent).is_dir())
    missing, *rest = path.relative_to(parent).parts
    near = nearest(missing, sorted(entry.name for entry in (project / parent).iterdir()))
    if near is None:
        return "create it, or correct the path"
    whole = (parent / near).joinpath(*rest)
    return f"did you mean `{whole if (project / whole).exists() else parent / near}`?"


def _submodule(place: Path) -> str | None:
    """The path of the git submodule that `place` is in, as the checkout around it lists it; None: it is in none."""
    for folder in place.resolve().parents:
        listed = folder / ".gitmodules"
        if listed.is_file():
            inside = place.resolve().relative_to(folder)
            found = re.findall(
                r"^\s*path\s*=\s*(.+?)\s*$", listed.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
            )
            return next((path for path in found if inside.is_relative_to(path)), None)
    return None
