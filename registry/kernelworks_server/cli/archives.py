"""Commands that write a whole registry to a file, and read it back."""

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
from kernelworks_server.services import Services

__all__ = ["commands"]

commands = group()


@commands.command()
@on_registry
def export(
    registry: Services,
    out: Annotated[Path, typer.Option(help="the archive; one that was there is replaced", dir_okay=False)],
) -> Said:
    """Write all of the registry to one file, as it is at this moment; a server may run meanwhile."""
    return _said("wrote", out, backup.export(registry.database, registry.blobs, out))


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
