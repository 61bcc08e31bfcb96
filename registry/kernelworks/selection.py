"""The choice among offers: of the first offer that has a variant for this process, the best one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernelworks.compat import Verdict
from kernelworks.host import HostEnv
from kernelworks.load import load_variant
from kernelworks.lookup import Absent
from kernelworks.model.variant import KernelDependency, Variant
from kernelworks.offers import Offer
from kernelworks.resolve import chosen, no_fit, weigh

__all__ = ["Selection", "select", "weigh_offer"]

_log = logging.getLogger("kernelworks")

_said: set[str] = set()
"""The warnings that this process has given."""


@dataclass(frozen=True)
class Selection:
    """The variant that this process gets, and where from."""

    subject: str
    offer: Offer
    variant: Variant

    def folder(self) -> Path:
        """The folder with its verified files; fetches them where they are not here."""
        return self.offer.prepare(self.variant)

    def load(self, load_dependency: Callable[[KernelDependency], ModuleType]) -> ModuleType:
        """Its module; `load_dependency` loads a kernel that it depends on."""
        module = load_variant(self.variant, self.offer.origin, self.folder, load_dependency)
        _log.info("`%s`: loaded %s, variant `%s`", self.subject, self.offer, self.variant.name)
        return module


def select(subject: str, offers: Iterable[Offer], host: HostEnv, backend: str | None = None) -> Selection:
    """The best variant of the first of `offers` that has one for `host`; what there is to warn of is logged, once.

    Raises:
        ResolveError: None has one; it says why for each variant of each.
    """
    tried = []
    for offer in offers:
        verdicts = weigh_offer(offer, host, backend, offer.look)
        if variant := chosen(verdicts):
            for warning in offer.warnings:
                if warning not in _said:
                    _said.add(warning)
                    _log.warning("%s", warning)
            return Selection(subject, offer, variant)
        tried.append((str(offer), verdicts))
    raise no_fit(subject, tried)


def weigh_offer(
    offer: Offer, host: HostEnv, backend: str | None, look: Callable[[Variant, HostEnv], Absent]
) -> tuple[Verdict, ...]:
    """The verdict on every variant of `offer`, as `weigh` gives them; the best is complete.

    A verdict on a variant that is not complete holds until it is: then all are weighed again.
    """
    known = {variant.name: variant for variant in offer.variants}
    while True:
        verdicts = weigh(known.values(), host, backend, look)
        best = chosen(verdicts)
        if best is None or (whole := offer.complete(best)) == best:
            return verdicts
        known[best.name] = whole
