"""`build.toml` on disk -> `Manifest`, or every fault that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pydantic import ValidationError

from kernelworks_build.errors import ManifestError
from kernelworks_build.manifest.diagnostics import Diagnostic, Fault, count, nearest
from kernelworks_build.manifest.document import Document, parse_document
from kernelworks_build.manifest.editions import Upgraded, upgrade
from kernelworks_build.manifest.files import MANIFEST, file_faults
from kernelworks_build.manifest.grammar import EDITION
from kernelworks_build.manifest.includes import include_faults
from kernelworks_build.manifest.model import FRAMEWORKS, Manifest
from kernelworks_build.manifest.ops import foreign_ops
from kernelworks_build.manifest.rules import RULES
from kernelworks_build.manifest.syntax import syntax_errors
from kernelworks_build.manifest.wording import faults_of, unknown_table

__all__ = [
    "Judged",
    "check_manifest",
    "judge",
    "manifest_bytes",
    "parse_manifest",
    "read_manifest",
    "refusal",
    "require",
]


@dataclass(frozen=True)
class Judged:
    """A manifest, and what is said of it.

    Attributes:
        upgraded: It in the newest edition; None where it is not even TOML, or something else.
        manifest: None where it has errors.
        diagnostics: Sorted by place.
    """

    upgraded: Upgraded | None
    manifest: Manifest | None
    diagnostics: list[Diagnostic]


def read_manifest(project: Path) -> Manifest:
    """The manifest of the kernel in the folder `project`; warnings are not reported.

    Raises:
        ManifestError: The manifest or a file that it names is faulty; `context["diagnostics"]` holds all.
    """
    found = _read(project, files=True)
    if found.manifest is None:
        raise refusal(found.diagnostics)
    return found.manifest


def check_manifest(project: Path, *, files: bool = True) -> list[Diagnostic]:
    """Every error and warning of the manifest in `project`, by place, and of the files that it names if `files`.

    Files are looked into once the manifest, which says where they are, has no error.
    """
    found = _read(project, files=files)
    if not (files and found.upgraded and found.manifest):
        return found.diagnostics
    document, file = found.upgraded.document, str(project / MANIFEST)
    includes = {Diagnostic.of(fault, document.positions, file) for fault in include_faults(document, project)}
    diagnostics = sorted({*found.diagnostics, *includes}, key=lambda one: one.place)
    return [*diagnostics, *syntax_errors(found.manifest, project), *foreign_ops(found.manifest, project)]


def require(diagnostics: Sequence[Diagnostic], *, strict: bool = False) -> None:
    """Return if none of `diagnostics` is an error, and, where `strict`, none a warning.

    Raises:
        ManifestError: Tells all of them, warnings too.
    """
    if any(strict or diagnostic.severity == "error" for diagnostic in diagnostics):
        raise refusal(diagnostics)


def parse_manifest(data: bytes, file: str, project: Path | None = None) -> tuple[Manifest | None, list[Diagnostic]]:
    """The manifest in `data` (None where it has errors) and its diagnostics, sorted by place.

    Args:
        data: Content of a `build.toml` of any edition.
        file: Its name in diagnostics.
        project: The folder in which the files that it names are looked for; None: nothing is looked for.
    """
    found = judge(data, file, project)
    return found.manifest, found.diagnostics


def judge(data: bytes, file: str, project: Path | None = None, license_id: str | None = None) -> Judged:
    """What there is to say of `data`; `license_id` stands for the licence that an older edition may leave out."""
    document = parse_document(data, file)
    if isinstance(document, Diagnostic):
        return Judged(None, None, [document])
    if foreign := _foreign(document) or _misspelt_tables(document):
        return Judged(None, None, [Diagnostic.of(fault, document.positions, file) for fault in foreign])
    upgraded = upgrade(document, file, license_id)
    if any(diagnostic.severity == "error" for diagnostic in upgraded.diagnostics):
        return Judged(None, None, list(upgraded.diagnostics))
    manifest, faults = _validate(upgraded.document, project)
    found = {*upgraded.diagnostics, *(Diagnostic.of(fault, upgraded.document.positions, file) for fault in faults)}
    has_errors = any(diagnostic.severity == "error" for diagnostic in found)
    return Judged(upgraded, None if has_errors else manifest, sorted(found, key=lambda one: one.place))


def manifest_bytes(project: Path) -> bytes:
    """The content of the `build.toml` in `project`.

    Raises:
        ManifestError: It cannot be read.
    """
    data = _load(project)
    if isinstance(data, Diagnostic):
        raise refusal([data])
    return data


def refusal(diagnostics: Sequence[Diagnostic]) -> ManifestError:
    """The error that tells all of `diagnostics`."""
    return ManifestError(
        "\n".join([*map(str, diagnostics), count(diagnostics)]),
        diagnostics=[diagnostic.to_json() for diagnostic in diagnostics],
    )


def _read(project: Path, *, files: bool) -> Judged:
    data = _load(project)
    if isinstance(data, Diagnostic):
        return Judged(None, None, [data])
    return judge(data, str(project / MANIFEST), project if files else None)


def _load(project: Path) -> bytes | Diagnostic:
    path = project / MANIFEST
    try:
        return path.read_bytes()
    except OSError as error:
        return Diagnostic(str(path), 1, 1, "error", "unreadable", *_unreadable(project, path, error))


def _unreadable(project: Path, path: Path, error: OSError) -> tuple[str, str | None]:
    if not project.is_dir():
        return f"`{project}` is not a folder", f"give the folder that holds `{MANIFEST}`"
    if not path.exists():
        hint = "`kernel-build init NAME` starts a kernel; else give the folder that holds it"
        return f"there is no `{MANIFEST}` in `{project}`", hint
    return f"cannot be read: {error.strerror}", None


def _validate(document: Document, project: Path | None) -> tuple[Manifest | None, list[Fault]]:
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
    """Why the document is no manifest of an edition read here; its other faults would mean nothing."""
    general = document.table("general")
    components = any(document.table("kernel", name) for name in document.table("kernel"))
    if "name" not in general and not components and not FRAMEWORKS.keys() & document.data.keys():
        return [
            Fault(
                "not-a-manifest",
                (),
                "this is not a kernel manifest: it has neither a name in `[general]` nor a framework table",
                "give the folder of a kernel; the `build.toml` of one starts with `[general]`",
            )
        ]
    edition = general.get("edition")
    if type(edition) is not int or edition == EDITION:
        return []
    what = f"edition {edition} is not read here"
    older = "remove the key: editions before carry none, and are told apart by their other keys"
    hint = f"the newest is {EDITION}; {older if edition < EDITION else 'a newer kernel-build may know it'}"
    return [Fault("unknown-edition", ("general", "edition"), what, hint)]
