"""The documents of a revision that are read here: its index and its card."""

from __future__ import annotations

from kernelworks.model.index import INDEX_NAME, Index
from kernelworks_server.indexes import Unreadable
from kernelworks_server.records import Entry, Repo
from kernelworks_server.services import Services

__all__ = ["CARD", "Documents"]

CARD = "README.md"
_MOST_CARD = 128 << 10


class Documents:
    """The documents of one registry. Who asks for one has proved before that they may read the repository."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def index(self, repo: Repo, commit: str) -> Index | Unreadable | None:
        """The index of this commit, or None where it has none."""
        entry = self._file(repo, commit, INDEX_NAME)
        return None if entry is None else self._services.shelf.indexes.read(entry.sha256, entry.size)

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
