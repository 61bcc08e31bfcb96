"""Commands that write a whole registry to a file and read it back, or a kernel of it to a folder registry."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kernelworks_server import backup
from kernelworks_server.archive import Contents
from kernelworks_server.cli.command import (
    DEFAULT_ROOT,
    AsJson,
    DatabaseUrl,
    Root,
    Said,
    StoreUrl,
    group,
    on_registry,
    say,
)
from kernelworks_server.config import open_config
from kernelworks_server.folders import export_kernel
from kernelworks_server.rights import MACHINE
from kernelworks_server.services import Services

__all__ = ["commands"]

commands = group()


@commands.command()
@on_registry
def export(
    registry: Services,
    repo_id: Annotated[str | None, typer.Argument(metavar="[ORG/NAME]", help="only this kernel, to a folder")] = None,
    *,
    out: Annotated[Path, typer.Option(help="the archive, which is replaced, or the folder, which is added to")],
) -> Said:
    """Write all of the registry to one file, as it is at this moment, or one kernel to a folder; a server may run."""
    if repo_id is None:
        return _said("wrote", out, backup.export(registry.database, registry.blobs, out))
    repo = registry.repositories.get(MACHINE, "kernel", repo_id)
    versions = export_kernel(registry, repo, out)
    told = ", ".join(f"v{version}" for version in versions) or "no version"
    return Said({"repo": repo.repo_id, "folder": str(out), "versions": versions}, f"wrote {told} to `{out}`")


@commands.command("import")
def read(
    archive: Annotated[Path, typer.Argument(help="what `export` wrote", exists=True, dir_okay=False)],
    root: Root = DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="only prove every byte of the archive")] = False,
    as_json: AsJson = False,
) -> None:
    """Read an archive into a new registry, whatever kinds of database and store it has."""
    if check:
        said = _said("proved", archive, backup.check(archive))
    else:
        config = open_config(root, database=database, store=store)
        said = _said("read", archive, backup.restore(config, archive))
    say(said, as_json=as_json)


def _said(done: str, path: Path, contents: Contents) -> Said:
    text = f"{done} `{path}`: {contents.rows} rows and {contents.blobs} files of {contents.bytes} bytes together"
    return Said({"archive": str(path), **asdict(contents)}, text)
