"""Fetching what a lock names: every kernel of it and all that its chosen variants need, verified, ready to load."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelworks.errors import KernelworksError
from kernelworks.host import HostEnv
from kernelworks.lockfile import Lock
from kernelworks.model.variant import KernelDependency, Variant
from kernelworks.offers import Offer, Request
from kernelworks.selection import select
from kernelworks.sources import Source, offers_from

__all__ = ["Synced", "sync_kernels"]


@dataclass(frozen=True)
class Synced:
    """A variant that is here, in `folder`, or the error that says why it or any variant is not."""

    need: KernelDependency
    variant: str | None = None
    folder: Path | None = None
    error: KernelworksError | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            **self.need.to_json(),
            "variant": self.variant,
            "folder": str(self.folder) if self.folder else None,
            "error": self.error.to_json() if self.error else None,
        }


def sync_kernels(
    lock: Lock, registries: tuple[str | os.PathLike[str], ...], host: HostEnv | None, *, consent: bool = False
) -> Iterator[Synced]:
    """What is here of each kernel of `lock` when this has run.

    Args:
        lock: What to fetch.
        registries: Where from, unless the lock says.
        host: The process whose variants are fetched; None for every variant.
        consent: To run code of publishers whom nobody has called trusted.
    """
    source = Source(registries, lock)
    waiting = [pin.need for pin in lock.pins if pin.direct or host is None]
    done = set()
    while waiting:
        need = waiting.pop(0)
        if need in done:
            continue
        done.add(need)
        request = Request(need.repo_id, need.version, need.revision, consent)
        try:
            offer, variants = _wanted(need, offers_from(request, source), host)
        except KernelworksError as error:
            yield Synced(need, error=error)
            continue
        for variant in variants:
            waiting.extend(variant.kernel_depends)
            yield _fetched(need, offer, variant)


def _wanted(need: KernelDependency, offers: Iterator[Offer], host: HostEnv | None) -> tuple[Offer, Iterable[Variant]]:
    if host is None:
        offer = next(offers)
        return offer, [offer.complete(variant) for variant in offer.variants]
    selection = select(need.repo_id, offers, host)
    return selection.offer, [selection.variant]


def _fetched(need: KernelDependency, offer: Offer, variant: Variant) -> Synced:
    try:
        return Synced(need, variant.name, offer.prepare(variant))
    except KernelworksError as error:
        return Synced(need, variant.name, error=error)
