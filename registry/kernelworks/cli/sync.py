"""`kernelworks sync`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernelworks import host
from kernelworks.cli import Output
from kernelworks.cli.table import table, terminal_width
from kernelworks.errors import together
from kernelworks.lockfile import find_lock, read_lock, spelled
from kernelworks.locking.syncing import Synced, sync_kernels
from kernelworks.sources import registries_of

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> Output:
    """What is in the cache now of each locked kernel; the exit code is that of the first that is not, if any."""
    lock = read_lock(find_lock(Path(arguments.folder).absolute()))
    process = None if arguments.all_variants else host.detect()
    registries = registries_of(arguments.registry)
    synced = tuple(sync_kernels(lock, registries, process, consent=arguments.trust_remote_code))
    errors = [one.error for one in synced if one.error]
    document = {"lockfile": lock.origin, "kernels": [one.to_json() for one in synced]}
    text = f"{lock.origin}\n{table(('kernel', 'variant', 'folder'), list(map(_row, synced)), terminal_width())}"
    return Output(document, text, together(errors) if errors else None)


def _row(synced: Synced) -> tuple[str, str, str]:
    where = str(synced.folder) if synced.folder else f"not fetched ({synced.error.code})" if synced.error else ""
    return spelled(synced.need).replace("`", ""), synced.variant or "-", where
