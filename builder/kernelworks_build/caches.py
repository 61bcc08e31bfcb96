"""What lies in the builder's cache, when it was used last, and what of it goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelworks_build.scratch import sweep
from kernelworks_build.toolchain.tree import remove

__all__ = ["KINDS", "Entry", "chosen", "discard", "entries", "leftovers"]

KINDS = {
    "artifacts": "downloads",
    "trees": "unpacked toolchains and sources",
    "units": "compiled translation units",
    "actions": "compiled libraries, translated sources",
    "variants": "finished variants",
    "nix": "stores of nix",
}
"""Folder of the cache -> what lies in it."""

_WORK = "work"
_DEAD = (".root-*", "*.part")  # a killed build leaves the first, a killed download the second


@dataclass(frozen=True)
class Entry:
    """One thing that can be made or fetched again.

    Attributes:
        size: Bytes.
        used: When it was used last, seconds since the epoch.
    """

    kind: str
    path: Path
    size: int
    used: float


def entries(cache: Path) -> list[Entry]:
    """Everything in `cache`, what was not used for longest first."""
    found = (_entry(kind, path) for kind in KINDS for path in _children(cache / kind) if _is_entry(path.name))
    return sorted(found, key=lambda entry: (entry.used, entry.path))


def chosen(found: Iterable[Entry], *, before: float | None = None, limit: int | None = None) -> list[Entry]:
    """Those of `found` (oldest first) that go.

    Args:
        found: As `entries` gives them.
        before: All that were not used since then, in seconds since the epoch.
        limit: And the oldest, until the rest is no more than so many bytes.
    """
    listed = list(found)
    old = [entry for entry in listed if before is not None and entry.used < before]
    left = listed[len(old) :]
    excess = sum(entry.size for entry in left) - limit if limit is not None else 0
    while excess > 0:
        excess -= left[0].size
        old.append(left.pop(0))
    return old


def discard(entry: Entry) -> None:
    """Remove `entry`; whoever calls has the cache alone."""
    if entry.path.is_dir():
        remove(entry.path)
    hidden_lock, lock = entry.path.with_name(f".{entry.path.name}.lock"), Path(f"{entry.path}.lock")
    for path in (entry.path, _seen(entry.path), hidden_lock, lock):
        path.unlink(missing_ok=True)


def leftovers(cache: Path) -> list[Path]:
    """What processes that ended early left behind, removed; whoever calls has the cache alone."""
    gone = []
    for folder in (cache / name for name in (*KINDS, _WORK)):
        gone += sweep(folder)
        for path in (path for pattern in _DEAD for path in folder.glob(pattern)):
            remove(path) if path.is_dir() else path.unlink()
            gone.append(path)
    return gone


def _children(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from folder.iterdir()


def _is_entry(name: str) -> bool:
    return not name.startswith(".") and not name.endswith((".lock", ".part"))


def _entry(kind: str, path: Path) -> Entry:
    touched = [stamp for stamp in (_seen(path), path / "entry.json") if stamp.exists()]  # by each use
    return Entry(kind, path, _size(path), touched[0].stat().st_mtime if touched else path.stat().st_ctime)


def _seen(path: Path) -> Path:
    return path.with_name(f".{path.name}.seen")


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(
        os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  # ten thousand times
        for folder, _, names in os.walk(path)
        for name in names
    )
