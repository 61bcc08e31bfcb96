"""`kernel-build publish`: a built revision into a registry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelworks import settings
from kernelworks.errors import UsageError
from kernelworks.transport.directory import folder_of
from kernelworks_build.cli.console import JsonOption, note, print_json
from kernelworks_build.publish import publish


def command(
    dist: Annotated[
        Path, typer.Argument(help="What `build` made: its --out, or the project that holds `dist`.")
    ] = Path(),
    *,
    to: Annotated[str, typer.Option("--to", help="Where it is published: org/name.", metavar="ORG/NAME")],
    registry: Annotated[
        str | None,
        typer.Option("--registry", help="A folder [default: KERNELWORKS_REGISTRY].", metavar="FOLDER"),
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Although sources differ from their commit.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Publish what was built; every byte is checked first, and the registry changes whole or not at all."""
    target = registry or settings.registry()
    if target is None:
        raise UsageError("no registry is named", hint="pass `--registry FOLDER` or set KERNELWORKS_REGISTRY")
    folder = dist / "dist" if (dist / "build.toml").is_file() else dist
    done = publish(folder, folder_of(target), to, allow_dirty=allow_dirty)
    if as_json:
        print_json({"repo": to, **vars(done)})
        return
    state = "published" if done.changed else "unchanged"
    note(f"{to} v{done.version} {state}: {', '.join(done.variants)} (commit {done.commit[:16]})")
    if done.left_behind:
        note(f"made from other sources, and so only in the revision before: {', '.join(done.left_behind)}")
