"""`kernel-build check`: every fault of `build.toml` at once."""

from __future__ import annotations

from pathlib import Path

from kernelworks_build.cli.console import JsonOption, ProjectArgument, note, print_json
from kernelworks_build.manifest import MANIFEST, check_manifest, read_manifest


def command(project: ProjectArgument = Path(), *, as_json: JsonOption = False) -> None:
    """Check build.toml and the files it names; print every fault as file:line:column."""
    diagnostics = check_manifest(project)
    if not as_json:
        for diagnostic in diagnostics:
            if diagnostic.severity == "warning":
                note(f"warning: {diagnostic}")
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        read_manifest(project)  # raises, with all of them
    if as_json:
        print_json({"diagnostics": [diagnostic.to_json() for diagnostic in diagnostics]})
    else:
        note(f"{project / MANIFEST}: no fault found")
