"""Reads indexes by the SHA-256 of their bytes, and keeps the parsed ones: bytes never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from kernelworks.errors import RepositoryError
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks_server.blobs import Blobs

__all__ = ["Indexes", "Unreadable"]

_LARGEST = 8 << 20
_KEPT = 32 << 20  # bytes of the documents whose parsed form is kept


@dataclass(frozen=True)
class Unreadable:
    """An index that is there and cannot be read, and why."""

    reason: str


class Indexes:
    """The indexes of one registry; the parsed one that was not asked for the longest is forgotten first."""

    def __init__(self, blobs: Blobs, room: int = _KEPT) -> None:
        self._blobs = blobs
        self._room = room
        self._used = 0
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[int, Index | Unreadable]] = OrderedDict()

    def read(self, sha256: str, size: int) -> Index | Unreadable:
        """The index that this blob is."""
        if size > _LARGEST:
            return Unreadable(f"{INDEX_NAME} has {size} bytes, and this registry reads at most {_LARGEST}")
        with self._lock:
            if sha256 in self._found:
                self._found.move_to_end(sha256)
                return self._found[sha256][1]
        parsed = self._parse(sha256)
        with self._lock:
            if sha256 not in self._found:
                self._found[sha256] = (size, parsed)
                self._used += size
            while self._used > self._room:
                _, (freed, _) = self._found.popitem(last=False)
                self._used -= freed
        return parsed

    def _parse(self, sha256: str) -> Index | Unreadable:
        try:
            return Index.from_bytes(b"".join(self._blobs.read(sha256)), INDEX_NAME)
        except RepositoryError as error:
            return Unreadable(error.message)
