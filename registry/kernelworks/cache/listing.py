"""Which kernels a cache holds, and what this user's records in it say that they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelworks.cache.memory import records
from kernelworks.cache.recall import recorded
from kernelworks.errors import RepositoryError
from kernelworks.kernel import Origin
from kernelworks.model.index import Index
from kernelworks.store import Store

__all__ = ["Cached", "cached_kernels"]


@dataclass(frozen=True)
class Cached:
    """One variant in a cache.

    Attributes:
        folder: Where it is.
        size: Bytes on the disk.
        origin, variant: What it is, or None where nothing tells.
        loaded: When this user has last loaded it (seconds since 1970), or None.
    """

    folder: Path
    size: int
    origin: Origin | None = None
    variant: str | None = None
    loaded: float | None = None

    def to_json(self) -> dict[str, Any]:
        origin = asdict(self.origin) if self.origin else None
        facts = {"folder": str(self.folder), "bytes": self.size, "variant": self.variant, "loaded": self.loaded}
        return {**facts, "origin": origin}


def cached_kernels(layer: Path) -> tuple[Cached, ...]:
    """What the cache `layer` holds, sorted by kernel."""
    known = _known(layer)
    folders = [folder for folder in Store(layer).root.glob("[!.]*") if folder.is_dir()]
    found = [Cached(folder, _size(folder), *known.get(folder.name, ())) for folder in folders]
    return tuple(sorted(found, key=lambda one: (str(one.origin and one.origin.subject), one.variant or "", one.folder)))


def _known(layer: Path) -> Mapping[str, tuple[Origin, str, float | None]]:
    """Digest of a wheel -> what it is: as registries have described it, or as it was loaded, and when."""
    known = dict(_described(layer))
    known.update((plan.variant.wheel.sha256, (plan.origin, plan.variant.name, when)) for plan, when in recorded(layer))
    return known


def _described(layer: Path) -> Iterator[tuple[str, tuple[Origin, str, float | None]]]:
    for host, commit, record in records(layer, "repos/*/*/revisions/*"):
        try:
            index = Index.from_bytes(record.body, commit)
        except RepositoryError:  # another builder's: it has none
            continue
        origin = Origin(str(record.facts.get("repo_id")), index.version, commit, host)
        yield from ((variant.wheel.sha256, (origin, variant.name, None)) for variant in index.variants)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
