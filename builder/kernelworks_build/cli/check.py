"""`kernel-build check`: every fault of `build.toml` at once."""

from __future__ import annotations

from pathlib import Path

from kernelworks_build.cli.console import JsonOption, ProjectArgument, note, print_json
from kernelworks_build.manifest import check_manifest, require

NAME = "check"


def command(project: ProjectArgument = Path(), *, as_json: JsonOption = False) -> None:
    """Check build.toml and the files it names; print every fault as file:line:column."""
    diagnostics = check_manifest(project)
    if not as_json:
        for diagnostic in diagnostics:
            if diagnostic.severity == "warning":
                note(f"warning: {diagnostic}")
    require(diagnostics)
    if as_json:
        print_json({"diagnostics": [diagnostic.to_json() for diagnostic in diagnostics]})
    else:
        note(f"{project / 'build.toml'}: no fault found")
