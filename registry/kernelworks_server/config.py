"""How one registry is set up: where its data lies, how much it takes at once, and its secret."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from sqlalchemy import URL

from kernelworks.durable import sync

__all__ = ["Config", "Limits", "Rate", "open_config"]

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30
_SECRET_BYTES = 32


@dataclass(frozen=True)
class Rate:
    """So many requests in so many seconds; 0 requests: as many as one likes."""

    requests: int
    seconds: int = 300


@dataclass(frozen=True)
class Limits:
    """What one request may bring, in bytes where nothing else is said, and how often one asker may ask."""

    body: int = _MIB
    """Any request that says nothing else."""
    commit: int = 256 * _MIB
    """All lines of one commit together; small files travel in them."""
    regular_file: int = 10 * _MIB
    """One file inside a commit's lines; larger ones go through LFS or Xet."""
    lfs_threshold: int = _MIB
    """From this size on, clients are told to use LFS or Xet."""
    file: int = 50 * _GIB
    xorb: int = 72 * _MIB
    shard: int = 64 * _MIB
    operations: int = 25_000
    """Files added, copied and deleted by one commit."""
    folder: int = 10_000
    """Entries of one folder: it is one row of the database and one list in memory."""
    refs: int = 10_000
    """Branches and tags of one repository: they are one answer."""
    message: int = 64 * _KIB
    page: int = 1_000
    """Entries of one answer."""
    grace: timedelta = timedelta(hours=24)
    """How long an upload may wait for its commit before garbage collection takes it."""
    xorb_age: timedelta = timedelta(weeks=4)
    """How long ago Xet clients sent what they may still refer to; `hub.xet` lets them for two weeks."""
    api: Rate = Rate(6_000)
    files: Rate = Rate(15_000)
    """Requests that move the bytes of files; they do not count as `api`."""

    def page_of(self, asked: int) -> int:
        """How many entries one answer has where so many are asked for."""
        return max(1, min(asked, self.page))


@dataclass(frozen=True)
class Config:
    """One registry: its folder, a SQLAlchemy URL, an object store URL, its public address, limits and secret."""

    root: Path
    database: str
    store: str
    base_url: str | None
    secret: bytes = field(repr=False)
    limits: Limits = field(default_factory=Limits)


def open_config(
    root: Path,
    *,
    database: str | None = None,
    store: str | None = None,
    base_url: str | None = None,
    limits: Limits | None = None,
) -> Config:
    """The registry in the folder `root`, which is made where it is missing.

    Args:
        root: Holds the secret, and database and objects unless URLs say otherwise.
        database: A SQLAlchemy URL instead of SQLite in `root`.
        store: An object store URL (`s3://bucket/prefix`) instead of a folder in `root`.
        base_url: What clients are told to come back to, instead of what they called.
        limits: Instead of the usual ones.
    """
    root = root.resolve()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)  # private repositories lie in it
    return Config(
        root=root,
        database=database or str(URL.create("sqlite", database=str(root / "registry.sqlite"))),
        store=store or (root / "objects").as_uri(),
        base_url=base_url.rstrip("/") if base_url else None,
        secret=_secret(root / "secret"),
        limits=limits or Limits(),
    )


def _secret(path: Path) -> bytes:
    """The key in the file at `path`; whoever comes first makes it, and every other process reads the same one."""
    if not path.exists():
        incoming = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            descriptor = os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                path.hardlink_to(incoming)
        finally:
            incoming.unlink(missing_ok=True)
        sync(path.parent)
    return path.read_bytes()
