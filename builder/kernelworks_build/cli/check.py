"""`kernel-build check`: every fault of `build.toml` at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelworks_build.cli.console import JsonOption, note, print_json
from kernelworks_build.cli.project import ProjectArgument
from kernelworks_build.manifest import MANIFEST, check_manifest, require
from kernelworks_build.manifest.diagnostics import count


def command(
    project: ProjectArgument = Path(),
    *,
    manifest_only: Annotated[
        bool, typer.Option("--manifest-only", help="Do not look at the files that it names.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check build.toml and the files it names. Every fault is printed as file:line:column."""
    diagnostics = check_manifest(project, files=not manifest_only)
    require(diagnostics, strict=strict)
    if as_json:
        print_json({"diagnostics": [diagnostic.to_json() for diagnostic in diagnostics]})
        return
    for diagnostic in diagnostics:
        note(str(diagnostic))
    note(f"{project / MANIFEST}: {count(diagnostics)}")
