"""The choice among variants: pure, the same for any order of the input, with every reason for every miss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernelworks.compat import Accepted, Rank, Rejected, Verdict, is_known, judge, shortfalls
from kernelworks.errors import ResolveError
from kernelworks.host import HostEnv
from kernelworks.lookup import Absent
from kernelworks.model.variant import Variant

__all__ = ["WayOut", "chosen", "no_fit", "ways_out", "weigh"]


def weigh(
    variants: Iterable[Variant],
    host: HostEnv,
    backend: str | None = None,
    check: Callable[[Variant, HostEnv], Absent] | None = None,
) -> tuple[Verdict, ...]:
    """The verdict on every variant: those that fit, best first, then the others, nearest miss first.

    Args:
        variants: In any order.
        host: This process.
        backend: As for `judge`.
        check: `lookup.look_up`: what a variant needs and this machine's files lack. It is asked of those that fit
            by their facts, the best first, until one lacks nothing; without it the facts alone decide.
    """
    verdicts = sorted((judge(variant, host, backend) for variant in variants), key=_distance)
    return tuple(sorted(_checked(verdicts, host, check), key=_distance) if check else verdicts)


def _checked(
    verdicts: Sequence[Verdict], host: HostEnv, check: Callable[[Variant, HostEnv], Absent]
) -> Iterator[Verdict]:
    rest = iter(verdicts)
    for verdict in rest:
        fits = isinstance(verdict, Accepted)
        reasons = shortfalls(verdict.variant, host, check(verdict.variant, host)) if fits else ()
        yield Rejected(verdict.variant, verdict.rank, reasons) if reasons else verdict
        if not reasons:
            break
    yield from rest


def chosen(verdicts: Sequence[Verdict]) -> Variant | None:
    """The variant to load among `verdicts` as `weigh` gives them, or None where none fits."""
    return verdicts[0].variant if verdicts and isinstance(verdicts[0], Accepted) else None


@dataclass(frozen=True)
class WayOut:
    """How `variant`, which does not fit, would: all of `remedies`; `in_call` where they are arguments alone."""

    variant: Variant
    remedies: tuple[str, ...]
    in_call: bool

    def __str__(self) -> str:
        return f"to use `{self.variant.name}`, {' and '.join(self.remedies)}"

    def to_json(self) -> dict[str, Any]:
        return {"variant": self.variant.name, "remedies": list(self.remedies), "in_call": self.in_call}


def ways_out(verdicts: Iterable[Verdict]) -> tuple[WayOut, ...]:
    """At most two: the nearest miss that a change of this machine mends, and the nearest that another call mends.

    Args:
        verdicts: As `weigh` gives them; what fits needs no way out.
    """
    found: dict[bool, WayOut] = {}
    for verdict in verdicts:
        if isinstance(verdict, Rejected):
            remedies = tuple(reason.remedy for reason in verdict.reasons if reason.remedy)
            in_call = all(reason.in_call for reason in verdict.reasons)
            if len(remedies) == len(verdict.reasons):
                found.setdefault(in_call, WayOut(verdict.variant, remedies, in_call))
    return tuple(found[in_call] for in_call in sorted(found))


def no_fit(subject: str, tried: Sequence[tuple[str, Sequence[Verdict]]]) -> ResolveError:
    """The error that says why nothing fits.

    Args:
        subject: What was looked at: `org/name`, a folder.
        tried: (revision in words, its verdicts as `weigh` gives them), the preferred revision first.
    """
    misses = [
        (revision, verdict) for revision, verdicts in tried for verdict in verdicts if isinstance(verdict, Rejected)
    ]
    revisions = "; ".join(revision for revision, _ in tried)
    if not misses:
        return ResolveError(f"`{subject}` ({revisions}) has no variants", subject=subject, rejections=[])
    lines = [
        f"  {revision}, `{miss.variant.name}`: {'; '.join(reason.text for reason in miss.reasons)}"
        for revision, miss in misses
    ]
    return ResolveError(
        "\n".join([f"no variant of `{subject}` fits this process:", *lines]),
        hint=_hint(sorted((miss for _, miss in misses), key=_distance)),
        subject=subject,
        rejections=[{"revision": revision, **miss.to_json()} for revision, miss in misses],
    )


def _distance(verdict: Verdict) -> tuple[bool, int, int, Rank]:
    """Smaller is nearer: what is for a backend that nobody here knows is farthest, which hides all other reasons.

    Reasons that nobody here can mend count before those that have a remedy.
    """
    reasons = verdict.reasons if isinstance(verdict, Rejected) else ()
    hopeless = sum(reason.remedy is None for reason in reasons)
    return (not is_known(verdict.variant.backend), hopeless, len(reasons), verdict.rank)


def _hint(misses: Sequence[Rejected]) -> str:
    ways = ways_out(misses)
    if not ways:
        return f"nearest is `{misses[0].variant.name}`; ask the publisher for a variant that fits"
    return "; or ".join([*map(str, ways), *(["ask the publisher for one that fits"] if len(ways) == 1 else [])])
