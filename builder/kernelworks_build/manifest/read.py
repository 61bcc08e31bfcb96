"""`build.toml` on disk -> `Manifest`, or every fault that it has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from pydantic import ValidationError

from kernelworks_build.errors import ManifestError
from kernelworks_build.manifest.diagnostics import Diagnostic, Fault, count, nearest
from kernelworks_build.manifest.document import Document, parse_document
from kernelworks_build.manifest.files import MANIFEST, file_faults
from kernelworks_build.manifest.grammar import EDITION
from kernelworks_build.manifest.model import FRAMEWORKS, Manifest
from kernelworks_build.manifest.rules import RULES
from kernelworks_build.manifest.syntax import syntax_errors
from kernelworks_build.manifest.wording import faults_of, unknown_table

__all__ = ["check_manifest", "parse_manifest", "read_manifest", "require"]


def read_manifest(project: Path) -> Manifest:
    """The manifest of the kernel in the folder `project`; warnings are not reported.

    Raises:
        ManifestError: The manifest or a file that it names is faulty; `context["diagnostics"]` holds all.
    """
    manifest, diagnostics = _read(project, files=True)
    if manifest is None:
        raise _error(diagnostics)
    return manifest


def check_manifest(project: Path, *, files: bool = True) -> list[Diagnostic]:
    """Every error and warning of the manifest in `project`, by place, and of the files that it names if `files`.

    Python files are compiled once the manifest, which says where they are, has no error.
    """
    manifest, diagnostics = _read(project, files=files)
    return [*diagnostics, *syntax_errors(manifest, project)] if manifest and files else diagnostics


def require(diagnostics: Sequence[Diagnostic]) -> None:
    """Return if none of `diagnostics` is an error.

    Raises:
        ManifestError: Tells all of them, warnings too.
    """
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        raise _error(diagnostics)


def parse_manifest(data: bytes, file: str, project: Path | None = None) -> tuple[Manifest | None, list[Diagnostic]]:
    """The manifest in `data` (None where it has errors) and its diagnostics, sorted by place.

    Args:
        data: Content of a `build.toml`.
        file: Its name in diagnostics.
        project: The folder in which the files that it names are looked for; None: nothing is looked for.
    """
    document = parse_document(data, file)
    if isinstance(document, Diagnostic):
        return None, [document]
    manifest, faults = _judge(document, project)
    diagnostics = sorted(
        {Diagnostic.of(fault, document.positions, file) for fault in faults}, key=lambda one: one.place
    )
    has_errors = any(diagnostic.severity == "error" for diagnostic in diagnostics)
    return None if has_errors else manifest, diagnostics


def _error(diagnostics: Sequence[Diagnostic]) -> ManifestError:
    return ManifestError(
        "\n".join([*map(str, diagnostics), count(diagnostics)]),
        diagnostics=[diagnostic.to_json() for diagnostic in diagnostics],
    )


def _read(project: Path, *, files: bool) -> tuple[Manifest | None, list[Diagnostic]]:
    path = project / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as error:
        return None, [Diagnostic(str(path), 1, 1, "error", *_unreadable(project, path, error))]
    return parse_manifest(data, str(path), project if files else None)


def _unreadable(project: Path, path: Path, error: OSError) -> tuple[str, str | None]:
    if not project.is_dir():
        return f"`{project}` is not a folder", f"give the folder that holds `{MANIFEST}`"
    if not path.exists():
        hint = "`kernel-build init NAME` starts a kernel; else give the folder that holds it"
        return f"there is no `{MANIFEST}` in `{project}`", hint
    return f"cannot be read: {error.strerror}", None


def _judge(document: Document, project: Path | None) -> tuple[Manifest | None, list[Fault]]:
    if foreign := _misspelt_tables(document) or _foreign(document):
        return None, foreign
    faults = list(chain.from_iterable(rule(document) for rule in RULES))
    if project is not None:
        faults += file_faults(document, project)
    try:
        return Manifest.model_validate(document.data), faults
    except ValidationError as error:
        return None, [*faults, *faults_of(error, document)]


def _misspelt_tables(document: Document) -> list[Fault]:
    """Tables that are named almost like one of a manifest, where that can be why there is no edition."""
    if "edition" in document.table("general"):
        return []  # all other faults are worth telling, too
    tables = Manifest.key_examples()
    return [unknown_table(key) for key in document.data if key not in tables and nearest(key, tables)]


def _foreign(document: Document) -> list[Fault]:
    """Why the document is no manifest of the edition read here; its other faults would mean nothing."""
    general = document.table("general")
    if "name" not in general and not {"kernel", *FRAMEWORKS} & document.data.keys():
        return [
            Fault(
                (),
                "this is not a kernel manifest: it has neither a name in `[general]` nor a framework table",
                "give the folder of a kernel; the `build.toml` of one starts with `[general]`",
            )
        ]
    if general and "edition" not in general:
        return [
            Fault(
                ("general",),
                f"`[general]` has no `edition`, so it is of an older edition, and only {EDITION} is read yet",
                f"add `edition = {EDITION}` if it is written for that edition",
                at="key",
            )
        ]
    edition = general.get("edition")
    if type(edition) is int and edition != EDITION:
        older = f"write `edition = {EDITION}`, and `kernel-build check` tells what else has changed"
        hint = f"only {EDITION} is read yet; {older if edition < EDITION else 'a newer kernel-build may know it'}"
        return [Fault(("general", "edition"), f"edition {edition} is not read here", hint)]
    return []
