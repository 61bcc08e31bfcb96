"""Reads the indexes and cards of revisions, and keeps the parsed ones: a commit's files never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kernelworks.errors import RepositoryError
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks_server.repositories import Entry, Repo
from kernelworks_server.services import Services

__all__ = ["CARD", "Shelf", "Unreadable"]

CARD = "README.md"
_MOST_INDEX = 8 << 20
_MOST_CARD = 128 << 10
_KEPT = 32 << 20  # bytes of the documents whose parsed form is kept


@dataclass(frozen=True)
class Unreadable:
    """An index that is there and cannot be read, and why."""

    reason: str


class Shelf:
    """The documents of one registry. Who asks for one has proved before that they may read the repository."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._indexes = _Kept(_KEPT)

    def index(self, repo: Repo, commit: str) -> Index | Unreadable | None:
        """The index of this commit, or None where it has none."""
        entry = self._file(repo, commit, INDEX_NAME)
        if entry is None:
            return None
        if entry.size > _MOST_INDEX:
            return Unreadable(f"{INDEX_NAME} has {entry.size} bytes, and pages read at most {_MOST_INDEX}")
        return self._indexes.get(entry.sha256, entry.size, partial(self._parse, entry.sha256))

    def _parse(self, sha256: str) -> Index | Unreadable:
        try:
            return Index.from_bytes(b"".join(self._services.blobs.read(sha256)), INDEX_NAME)
        except RepositoryError as error:
            return Unreadable(error.message)

    def card(self, repo: Repo, commit: str) -> tuple[str, bool] | None:
        """(the text of this commit's card, whether that is all of it), or None where it has none."""
        entry = self._file(repo, commit, CARD)
        if entry is None:
            return None
        data = b"".join(self._services.blobs.read(entry.sha256, 0, _MOST_CARD))
        return data.decode("utf-8", "replace"), entry.size <= _MOST_CARD

    def _file(self, repo: Repo, commit: str, path: str) -> Entry | None:
        found = self._services.repositories.paths_info(repo, commit, [path])
        return found[0] if found and found[0].kind == "file" else None


class _Kept:
    """Indexes by the SHA-256 of their bytes; the one that was not asked for the longest goes first."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[int, Index | Unreadable]] = OrderedDict()

    def get(self, key: str, size: int, make: Callable[[], Index | Unreadable]) -> Index | Unreadable:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key][1]
        made = make()
        with self._lock:
            if key not in self._found:
                self._found[key] = (size, made)
                self._used += size
            while self._used > self._room:
                _, (freed, _) = self._found.popitem(last=False)
                self._used -= freed
        return made
