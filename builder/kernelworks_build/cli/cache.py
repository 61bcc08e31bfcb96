"""`kernel-build cache`: what lies in the cache, and what of it goes."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from kernelworks.errors import UsageError
from kernelworks.settings import cache_root
from kernelworks_build.caches import KINDS, Entry, chosen, discard, entries, leftovers
from kernelworks_build.cli.console import JsonOption, live_progress, megabytes, note, print_json, print_table
from kernelworks_build.usage import alone

_DAY = 86400.0
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

group = typer.Typer(
    name="cache",
    help="See and clean the cache of downloads, toolchains and results.",
    add_completion=False,
    rich_markup_mode=None,
)


@group.command("info")
def info_command(*, as_json: JsonOption = False) -> None:
    """Say what the cache holds and how large it is."""
    root = cache_root()
    rows = [_row(kind, [entry for entry in entries(root) if entry.kind == kind]) for kind in KINDS]
    total = sum(row["size"] for row in rows)
    if as_json:
        print_json({"folder": str(root), "size": total, "kinds": rows})
        return
    print_table(
        f"{root}: {megabytes(total)}",
        ("what", "entries", "size", "not used since"),
        ((KINDS[row["kind"]], str(row["entries"]), megabytes(row["size"]), row["oldest"] or "-") for row in rows),
    )


@group.command("gc")
def gc_command(
    *,
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", min=0, help="What was not used for so many days.", metavar="DAYS"),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option("--max-size", help="And the oldest, until no more is left: 500M, 20G.", metavar="SIZE"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove what killed processes left, and what was not used for long. It waits for builds that run."""
    root, limit = cache_root(), None if max_size is None else _bytes(max_size)
    before = None if older_than is None else time.time() - older_than * _DAY
    with live_progress() as progress, alone(root, progress):
        dead = [] if dry_run else leftovers(root)
        gone = chosen(entries(root), before=before, limit=limit)
        for entry in gone if not dry_run else ():
            discard(entry)
    if as_json:
        removed = [{"kind": entry.kind, "path": str(entry.path), "size": entry.size} for entry in gone]
        print_json({"folder": str(root), "removed": removed, "leftovers": list(map(str, dead)), "dry-run": dry_run})
        return
    size = megabytes(sum(entry.size for entry in gone))
    note(f"{root}: {len(gone)} entries, {size}, {'would go' if dry_run else 'are gone'}; {len(dead)} leftovers removed")


def _row(kind: str, found: list[Entry]) -> dict[str, Any]:
    oldest = datetime.fromtimestamp(found[0].used, timezone.utc).date().isoformat() if found else None
    return {"kind": kind, "entries": len(found), "size": sum(entry.size for entry in found), "oldest": oldest}


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text, re.IGNORECASE)
    if not found:
        raise UsageError(f"`{text}` is not a size", hint="write 500M or 20G", size=text)
    return int(float(found[1]) * _UNITS[found[2].upper()])
