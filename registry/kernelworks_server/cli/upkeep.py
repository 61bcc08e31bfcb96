"""Commands for who looks after a registry: what happened, and giving back space."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from kernelworks_server import events
from kernelworks_server.cli.command import Said, group, on_registry
from kernelworks_server.collect import collect
from kernelworks_server.services import Services

__all__ = ["commands"]

commands = group()


@commands.command()
@on_registry
def gc(
    registry: Services,
    hours: Annotated[float | None, typer.Option(help="how long an upload may wait for its commit", min=0)] = None,
) -> Said:
    """Delete the bytes that no commit of any repository refers to; a server may run meanwhile."""
    limits = registry.config.limits
    grace = limits.grace if hours is None else timedelta(hours=hours)
    found = collect(registry.database, registry.blobs, grace, limits.xorb_age)
    text = f"deleted {found.blobs} files of {found.bytes} bytes together, and what {found.remains} broken uploads left"
    return Said(asdict(found), text)


@commands.command()
@on_registry
def reindex(registry: Services) -> Said:
    """Write anew what lists and searches know of every kernel: all of it comes from the indexes in the commits."""
    count = registry.shelf.fill(anew=True)
    return Said({"heads": count}, f"read the indexes of {count} branches")


@commands.command()
@on_registry
def log(
    registry: Services,
    repo: Annotated[str | None, typer.Option(help="only what was done to it; a user or organisation as well")] = None,
    limit: Annotated[int, typer.Option(help="how many changes, the latest first", min=1)] = 100,
) -> Said:
    """Tell who changed what, and when."""
    found = events.read(registry.database, subject=repo, limit=limit)
    return Said({"events": [event.to_json() for event in found]}, "\n".join(map(_line, found)))


def _line(event: events.Event) -> str:
    details = (f"{name}={value}" for name, value in event.details.items() if value is not None)
    actor = event.actor or "(at the machine)"
    words = [f"{event.time:%Y-%m-%d %H:%M:%S}", actor, event.action, event.subject, event.commit or "", *details]
    return " ".join(filter(None, words))
