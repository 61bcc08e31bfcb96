"""`kernel-build init`: a new kernel from a template."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from kernelworks_build.cli.console import JsonOption, note, print_json
from kernelworks_build.template import create, templates


def command(
    name: Annotated[str, typer.Argument(help="Kernel name (silu-and-mul), or org/name.", metavar="NAME")],
    *,
    template: Annotated[
        str, typer.Option("--template", help=f"Which starter kernel: {', '.join(templates())}.", metavar="NAME")
    ] = "stable_abi",
    backends: Annotated[
        str, typer.Option("--backends", help="Only for these backends of it: cpu,cuda.", metavar="LIST")
    ] = "",
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where to create it; without it, ./NAME.", metavar="FOLDER")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a kernel that builds, has tests, and is of use."""
    folder = create(name, template, directory, [one.strip() for one in backends.split(",") if one.strip()])
    if as_json:
        print_json({"folder": str(folder), "template": template})
        return
    note(f"created {folder}; next: kernel-build build {shlex.quote(str(folder))}")
