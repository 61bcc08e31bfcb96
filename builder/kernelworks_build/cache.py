"""Results of actions, kept by the digest of what decides them.

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
from tempfile import mkdtemp

from kernelworks.model.digest import FileEntry, canonical_json, list_tree

__all__ = ["ActionCache"]

_ENTRY = "entry.json"


class ActionCache:
    """Entries below `root`, one folder per key."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, key: str) -> Path | None:
        """The folder of the entry `key` with every byte checked, or None; a damaged entry is removed."""
        folder = self.root / key
        try:
            listed = [FileEntry(**item) for item in json.loads((folder / _ENTRY).read_bytes())]
            found = [entry for entry in list_tree(folder) if entry.path != _ENTRY]
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, OSError):
            listed, found = [], [FileEntry("", 0, "")]
        if listed != found:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        return folder

    def put(self, key: str, fill: Callable[[Path], None]) -> Path:
        """Make the entry `key`: `fill` writes its files into a fresh folder, which lands by one rename.

        A process that loses the race keeps the winner's entry.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        fresh = Path(mkdtemp(prefix=".new-", dir=self.root))
        try:
            fill(fresh)
            entries = [entry.to_json() for entry in list_tree(fresh)]
            (fresh / _ENTRY).write_bytes(canonical_json(entries))
            fresh.chmod(0o755)
            with suppress(OSError):  # the folder is there and not empty: another process was faster
                os.rename(fresh, self.root / key)  # noqa: PTH104  # Path.rename would follow the same rule
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return self.root / key
