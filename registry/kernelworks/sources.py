"""Where a kernel is looked for: in the folder that LOCAL_KERNELS names, at the commit of a lock file, in registries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kernelworks import settings
from kernelworks.arguments import check_registry
from kernelworks.errors import VerifyError
from kernelworks.model.variant import KernelDependency, Variant
from kernelworks.offers import Offer, Request, override_offer, published_offers
from kernelworks.transport.repo_id import is_pinned

if TYPE_CHECKING:  # most processes have no lock
    from kernelworks.lockfile import Lock, Pin

__all__ = ["Source", "offers_from", "registries_of", "source_of"]


@dataclass(frozen=True)
class Source:
    """Where to look for one kernel.

    Attributes:
        registries: Folders and URLs, the preferred first.
        lock: What names its commit, if anything does.
        override: The folder that takes the place of all of them, if there is one.
    """

    registries: tuple[str | os.PathLike[str], ...]
    lock: Lock | None = None
    override: Path | None = None

    def of(self, repo_id: str) -> Source:
        """Where to look for another kernel, which this one needs."""
        return replace(self, override=settings.local_kernels().get(repo_id))


def source_of(repo_id: str, registry: str | os.PathLike[str] | None = None, lock: Lock | None = None) -> Source:
    """Where the environment says to look for `repo_id`; `registry` and `lock` take precedence over it.

    Raises:
        UsageError: `registry` or the environment cannot be right.
        LockError: The lock file that the environment names cannot be read.
    """
    registries = registries_of(registry)
    if lock is None and (path := settings.lock()) is not None:
        from kernelworks.lockfile import process_lock  # noqa: PLC0415  # most processes have no lock

        lock = process_lock(path)
    return Source(registries, lock, settings.local_kernels().get(repo_id))


def registries_of(registry: str | os.PathLike[str] | None) -> tuple[str | os.PathLike[str], ...]:
    """`registry`, else those of the environment, the preferred first, else the Hub.

    Raises:
        UsageError: `registry` is neither a text nor a path.
    """
    check_registry(registry)
    return (registry,) if registry else settings.registries() or (settings.hub(),)


def offers_from(request: Request, source: Source) -> Iterator[Offer]:
    """What `source` offers, the preferred first.

    Raises:
        KernelworksError: As `override_offer` and `published_offers`.
        LockError: The lock lacks what is asked for, and that is no commit.
    """
    if source.override is not None:
        return iter((override_offer(request.repo_id, source.override),))
    if source.lock is not None:
        return _locked_offers(request, source, source.lock)
    return published_offers(request, source.registries)


def _locked_offers(request: Request, source: Source, lock: Lock) -> Iterator[Offer]:
    need = KernelDependency(request.repo_id, request.version, request.revision)
    if need.revision is not None and is_pinned(need.revision) and lock.get(need) is None:
        yield from published_offers(request, source.registries)  # a commit is as good as a lock
        return
    pin = lock.find(need)
    registries = (pin.registry,) if pin.registry else source.registries
    pinned = replace(request, version=None, revision=pin.commit, named_by_file=pin.registry is not None)
    for offer in published_offers(pinned, registries):
        yield replace(offer, complete=partial(_proved, offer, pin, lock.origin)) if pin.variants else offer


def _proved(offer: Offer, pin: Pin, lockfile: str, variant: Variant) -> Variant:
    """`variant` in full, if it is the one that was locked.

    Raises:
        VerifyError: It is another.
    """
    whole = offer.complete(variant)
    got, expected = whole.wheel.sha256, pin.variants.get(whole.name, "no such variant")
    if got != expected:
        raise VerifyError(
            f"variant `{whole.name}` of `{pin.need.repo_id}` at commit `{pin.commit}` is not the one that was locked:"
            f" expected sha256 {expected}, got {got}",
            hint="a commit stands for the same files forever: ask whoever runs the registry what has happened",
            file=lockfile,
            variant=whole.name,
            expected=expected,
            got=got,
        )
    return whole
