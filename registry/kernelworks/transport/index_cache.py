"""Indexes on this machine, by registry, repository and commit: what a pinned commit stands for needs no request.

A commit of the Hub proves nothing about the bytes: the registry's word for them is kept with their SHA-256, so that
a damaged copy counts as none. Two registries that have one repository id share nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from kernelworks.durable import replace_file
from kernelworks.model.digest import hash_bytes

__all__ = ["IndexCache"]


class IndexCache:
    """The indexes of the registry at the URL `endpoint`, below the cache's folder `root`."""

    def __init__(self, root: Path, endpoint: str) -> None:
        self._folder = root / "indexes" / quote(endpoint, safe="")

    def get(self, repo_id: str, commit: str) -> bytes | None:
        """The bytes of the index, or None where they are not here."""
        try:
            digest, _, data = (self._folder / repo_id / commit).read_bytes().partition(b"\n")
        except OSError:
            return None
        return data if hash_bytes(data).encode() == digest else None

    def put(self, repo_id: str, commit: str, data: bytes) -> None:
        """Keep `data`, where this cache can be written."""
        with suppress(OSError):
            (self._folder / repo_id).mkdir(parents=True, exist_ok=True)
            replace_file(self._folder / repo_id / commit, hash_bytes(data).encode() + b"\n" + data)
