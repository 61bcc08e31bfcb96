"""`kernelworks lock`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelworks.cli import Output
from kernelworks.cli.table import table
from kernelworks.durable import replace_file
from kernelworks.lockfile import LOCK_NAME, LOCK_NAMES, Lock, read_lock, spelled
from kernelworks.locking.pinning import Change, changes, lock_kernels
from kernelworks.locking.project import read_project
from kernelworks.sources import registries_of

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> Output:
    """What has changed in the lock file, which is written where something has."""
    folder = Path(arguments.folder).absolute()
    wanted = read_project(folder)
    before = next((read_lock(folder / name) for name in LOCK_NAMES if (folder / name).is_file()), Lock("", ()))
    after = Lock(
        str(folder / LOCK_NAME),
        lock_kernels(wanted, registries_of(arguments.registry), None if arguments.upgrade else before),
    )
    path, data = Path(after.origin), after.to_bytes()
    if not path.is_file() or path.read_bytes() != data:
        replace_file(path, data)
    changed = changes(before.pins, after.pins)
    document = {
        "lockfile": after.origin,
        "kernels": [pin.to_json() for pin in after.pins],
        "changes": [change.to_json() for change in changed],
    }
    title = f"{after.origin}: {len(after.pins)} locked, {len(changed)} changed"
    rows = list(map(_row, changed))
    return Output(document, f"{title}\n{table(('kernel', 'before', 'after'), rows)}" if rows else title)


def _row(change: Change) -> tuple[str, ...]:
    return spelled(change.need).replace("`", ""), *((commit or "-")[:16] for commit in (change.before, change.after))
