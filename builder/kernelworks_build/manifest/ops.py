"""Which ops the sources register outside of the namespace of a build, where two versions of a kernel would clash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernelworks_build.claims import ID_MACRO
from kernelworks_build.manifest.diagnostics import Diagnostic
from kernelworks_build.manifest.files import source_files
from kernelworks_build.manifest.model import Manifest
from kernelworks_build.registrations import REMEDY_IN_CODE, REMEDY_IN_PYTHON, registrations_in

__all__ = ["foreign_ops"]


def foreign_ops(manifest: Manifest, project: Path) -> Iterator[Diagnostic]:
    """Every place that registers ops in a namespace that is written there, by file."""
    for name in source_files(manifest, project):
        for found in sorted(registrations_in(project, name)):
            if found.namespace != ID_MACRO:
                ops = ", ".join(f"`{op}`" for op in found.ops) or "ops"
                what = f"registers {ops} in the namespace `{found.namespace}`, which all builds of a kernel share"
                hint = REMEDY_IN_PYTHON if name.endswith(".py") else REMEDY_IN_CODE
                yield Diagnostic(str(project / name), found.line, found.column, "error", "op-namespace", what, hint)
