"""`kernel-build migrate`: an older build.toml in the newest edition of the format."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kernelworks.durable import replace_file
from kernelworks_build.cli.console import JsonOption, note, print_json
from kernelworks_build.cli.project import ProjectArgument
from kernelworks_build.errors import ManifestError
from kernelworks_build.manifest import EDITION, MANIFEST, manifest_bytes, migrate


def command(
    project: ProjectArgument = Path(),
    *,
    license_id: Annotated[
        str | None, typer.Option("--license", help="The licence, where build.toml names none.", metavar="ID")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail where there is something to do.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Rewrite build.toml in the newest edition of the format. Comments and order stay, and the change is shown."""
    path = project / MANIFEST
    found = migrate(manifest_bytes(project), str(path), license_id)
    changed = found.new != found.old
    if check and changed:
        raise ManifestError(
            f"`{path}` is of edition {found.edition}",
            hint="run `kernel-build migrate`",
            file=str(path),
            edition=found.edition,
            diff=found.diff(str(path)),
        )
    if changed:
        target = path.resolve()
        replace_file(target, found.new, mode=target.stat().st_mode & 0o777)
    if as_json:
        print_json(
            {
                "file": str(path),
                "from": found.edition,
                "to": EDITION,
                "changed": changed,
                "diff": found.diff(str(path)),
                "diagnostics": [one.to_json() for one in found.diagnostics],
            }
        )
        return
    sys.stderr.write(found.diff(str(path)))
    for one in found.diagnostics:
        note(str(one))
    note(f"{path}: edition {found.edition} -> {EDITION}" if changed else f"{path}: of edition {EDITION} already")
