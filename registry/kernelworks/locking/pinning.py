"""Making a lock: what registries have now for the kernels of a project, and for all that any variant of them needs."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelworks.errors import KernelworksError, LockError, VerifyError, together
from kernelworks.lockfile import Lock, Pin, spelled
from kernelworks.locking.project import Wanted
from kernelworks.model.variant import KernelDependency
from kernelworks.offers import Request, published_offers

__all__ = ["Change", "changes", "lock_kernels"]

_log = logging.getLogger("kernelworks")


@dataclass(frozen=True)
class Change:
    """What a new lock says of one kernel: the commit before and after; None where it was or is not locked."""

    need: KernelDependency
    before: str | None
    after: str | None

    def to_json(self) -> dict[str, Any]:
        return {**self.need.to_json(), "before": self.before, "after": self.after}


def lock_kernels(
    wanted: Iterable[Wanted], registries: Sequence[str | os.PathLike[str]], kept: Lock | None = None
) -> tuple[Pin, ...]:
    """The pins for `wanted` and all that they need.

    Args:
        wanted: What a project asks for.
        registries: Where to look for what names no registry of its own.
        kept: A lock whose commits stay, as far as they are still needed.

    Raises:
        KernelworksError: All that cannot be locked.
    """
    pins: dict[KernelDependency, Pin] = {}
    old = {pin.need: pin for pin in kept.pins} if kept else {}
    faults: list[KernelworksError] = []
    waiting = deque((one, True) for one in wanted)
    while waiting:
        one, direct = waiting.popleft()
        if (known := pins.get(one.need)) is not None:
            if known.registry != one.registry:
                faults.append(_two_places(one.need, known.registry, one.registry))
            continue
        try:
            pin, needs = _pinned(one, registries, old.get(one.need))
        except KernelworksError as error:
            faults.append(error)
            continue
        pins[one.need] = replace(pin, direct=direct)
        waiting.extend((Wanted(need, one.registry), False) for need in needs)
    if faults:
        raise together(faults)
    return tuple(pins.values())


def changes(before: Iterable[Pin], after: Iterable[Pin]) -> tuple[Change, ...]:
    """What `after` says that `before` did not, sorted by kernel."""
    old, new = _commits(before), _commits(after)
    needs = sorted(old.keys() | new.keys(), key=spelled)
    return tuple(Change(need, old.get(need), new.get(need)) for need in needs if old.get(need) != new.get(need))


def _commits(pins: Iterable[Pin]) -> Mapping[KernelDependency, str]:
    return {pin.need: pin.commit for pin in pins}


def _two_places(need: KernelDependency, *registries: str | None) -> LockError:
    places = " and ".join(f"registry `{registry}`" if registry else "any registry" for registry in registries)
    return LockError(f"{spelled(need)} is needed from {places}", hint="name one registry for all that need it")


def _pinned(
    wanted: Wanted, registries: Sequence[str | os.PathLike[str]], kept: Pin | None
) -> tuple[Pin, tuple[KernelDependency, ...]]:
    """The pin, and what its variants need."""
    need = wanted.need
    if kept is not None and kept.registry == wanted.registry:
        request = Request(need.repo_id, revision=kept.commit)
    else:
        kept, request = None, Request(need.repo_id, need.version, need.revision)
    if wanted.registry:
        request, registries = replace(request, named_by_file=True), (wanted.registry,)
    offer = next(published_offers(request, registries))
    for warning in offer.warnings:
        _log.warning("%s", warning)
    variants = [offer.complete(variant) for variant in offer.variants]
    pin = Pin(
        need,
        offer.origin.commit or "",
        wanted.registry,
        {variant.name: variant.wheel.sha256 for variant in variants},
    )
    if kept and kept.variants not in ({}, pin.variants):
        raise VerifyError(
            f"{spelled(need)} at commit `{pin.commit}` is not what was locked: its variants have changed",
            hint="a commit stands for the same files forever: ask whoever runs the registry what has happened",
            expected=dict(kept.variants),
            got=dict(pin.variants),
        )
    return pin, tuple(dict.fromkeys(other for variant in variants for other in variant.kernel_depends))
