"""Results, kept by the digest of what decides them.

An entry is a folder with the files and `entry.json`, which lists them with their SHA-256; a file that differs makes the
entry a miss, so a damaged cache costs time and never a wrong byte.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kernelworks.model.digest import FileEntry, canonical_json, hash_bytes, list_tree
from kernelworks_build.action import Action
from kernelworks_build.exclusive import exclusive
from kernelworks_build.progress import SILENT, Progress
from kernelworks_build.scratch import scratch

__all__ = ["ResultCache", "action_key"]

_ENTRY = "entry.json"


def action_key(action: Action, executor: str) -> str:
    """The key of what `action` makes when the executor of that name runs it."""
    return hash_bytes(canonical_json({"action": action.digest(), "executor": executor}))


class ResultCache:
    """Entries below `root`, one folder per key; `progress` hears when one that another process makes is waited for."""

    def __init__(self, root: Path, progress: Progress = SILENT) -> None:
        self.root = root
        self._progress = progress

    def get(self, key: str) -> Path | None:
        """The folder of the entry `key` with every byte checked, or None."""
        folder = self.root / key
        try:
            listed = [FileEntry(**item) for item in json.loads((folder / _ENTRY).read_bytes())]
            found = [entry for entry in list_tree(folder) if entry.path != _ENTRY]
        except (ValueError, TypeError, OSError):
            return None
        if listed != found:
            return None
        with suppress(OSError):  # a cache that is only read
            os.utime(folder / _ENTRY)  # so that what is used is not taken for old
        return folder

    def get_or_make(self, key: str, fill: Callable[[Path], None]) -> Path:
        """The folder of the entry `key`; `fill` writes its files into a fresh folder where there is no good one.

        Of several processes that want one entry, one makes it and the others wait.
        """
        if found := self.get(key):
            return found
        self.root.mkdir(parents=True, exist_ok=True)
        with exclusive(self.root / f".{key}.lock", self._progress):
            return self.get(key) or self._make(key, fill)

    def _make(self, key: str, fill: Callable[[Path], None]) -> Path:
        folder = self.root / key
        with scratch(self.root) as fresh:
            fill(fresh)
            (fresh / _ENTRY).write_bytes(canonical_json([entry.to_json() for entry in list_tree(fresh)]))
            shutil.rmtree(folder, ignore_errors=True)  # a damaged one
            fresh.rename(folder)
        return folder
