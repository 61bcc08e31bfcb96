"""What a registry has said, kept on this machine: it answers when the registry cannot be asked, or need not be.

    <cache>/registries/<SHA-256 of the endpoint, shortened>-<host>/<name...>

A record is its SHA-256, one line of JSON (when it was said, facts) and the body. It is replaced in one step, and a
damaged one counts as none. Its digest finds damage, not forgery: whoever can write this cache is trusted. Records of
another form will get another folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

from kernelworks.durable import replace_file
from kernelworks.model.digest import canonical_json, hash_bytes

__all__ = ["Memory", "Record", "age_of", "records"]

_SHORTENED = 16
_LONGEST_HOST = 100
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))


@dataclass(frozen=True)
class Record:
    """One thing that a registry said, `facts` and `body`, at `time` (seconds since 1970)."""

    time: float
    facts: Mapping[str, Any]
    body: bytes


class Memory:
    """What the registry at `endpoint` has said.

    Args:
        caches: Folders that are looked through, in this order; the first is written.
        endpoint: URL of the registry in its one form.
    """

    def __init__(self, caches: Sequence[Path], endpoint: str) -> None:
        host = re.sub("[^a-z0-9.-]", "_", endpoint.partition("://")[2].partition("/")[0])[:_LONGEST_HOST]
        name = f"{hash_bytes(endpoint.encode())[:_SHORTENED]}-{host}"
        self._folders = tuple(cache / "registries" / name for cache in caches)

    def get(self, *name: str) -> Record | None:
        """The record of this name, the parts of its path, or None."""
        return next((found for folder in self._folders if (found := _read(folder.joinpath(*name)))), None)

    def put(self, *name: str, body: bytes = b"", **facts: Any) -> None:
        """Keep a record, where this cache can be written. It need not survive a power cut: it can be asked again."""
        path = self._folders[0].joinpath(*name)
        data = canonical_json({"time": time(), "facts": facts}) + body
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, hash_bytes(data).encode() + b"\n" + data, durable=False)

    def forget(self, *name: str) -> None:
        """Keep no record of this name, where this cache can be written."""
        with suppress(OSError):
            self._folders[0].joinpath(*name).unlink()

    def names(self, *folder: str) -> frozenset[str]:
        """The last parts of the names of all records directly below `folder`."""
        found: set[str] = set()
        for root in self._folders:
            with suppress(OSError):
                found.update(path.name for path in root.joinpath(*folder).iterdir() if path.name[0] != ".")
        return frozenset(found)


def records(cache: Path, pattern: str) -> Iterator[tuple[str, str, Record]]:
    """(host of the registry, last part of the name, record) of all in `cache` whose names match `pattern`."""
    root = cache / "registries"
    for path in sorted(root.glob(f"*/{pattern}")):
        if record := _read(path):
            yield path.relative_to(root).parts[0].partition("-")[2], path.name, record


def age_of(moment: float) -> str:
    """How long ago `moment`, in seconds since 1970, was, in words."""
    seconds = max(0.0, time() - moment)
    for unit, length in _UNITS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "less than a minute ago"


def _read(path: Path) -> Record | None:
    with suppress(OSError):
        digest, _, data = path.read_bytes().partition(b"\n")
        if hash_bytes(data).encode() == digest:
            head, _, body = data.partition(b"\n")
            said = json.loads(head)
            return Record(said["time"], said["facts"], body)
    return None
