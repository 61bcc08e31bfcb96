"""The choice among variants: pure, the same for any order of the input, with every reason for every miss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelworks.compat import Accepted, Rank, Rejected, Verdict, judge
from kernelworks.errors import ResolveError
from kernelworks.host import HostEnv
from kernelworks.model.variant import Variant

__all__ = ["chosen", "no_fit", "weigh"]


def weigh(variants: Iterable[Variant], host: HostEnv, backend: str | None = None) -> tuple[Verdict, ...]:
    """The verdict on every variant: those that fit, best first, then the others, nearest miss first."""
    return tuple(sorted((judge(variant, host, backend) for variant in variants), key=_distance))


def chosen(verdicts: Sequence[Verdict]) -> Variant | None:
    """The variant to load among `verdicts` as `weigh` gives them, or None where none fits."""
    return verdicts[0].variant if verdicts and isinstance(verdicts[0], Accepted) else None


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
        hint=_hint(min((miss for _, miss in misses), key=_distance)),
        subject=subject,
        rejections=[{"revision": revision, **miss.to_json()} for revision, miss in misses],
    )


def _distance(verdict: Verdict) -> tuple[int, int, Rank]:
    """Smaller is nearer: reasons that nobody here can mend count before those that have a remedy."""
    reasons = verdict.reasons if isinstance(verdict, Rejected) else ()
    hopeless = sum(reason.remedy is None for reason in reasons)
    return (hopeless, len(reasons), verdict.rank)


def _hint(nearest: Rejected) -> str:
    remedies = [reason.remedy for reason in nearest.reasons if reason.remedy]
    if len(remedies) < len(nearest.reasons):
        return f"nearest is `{nearest.variant.name}`; ask the publisher for a variant that fits"
    return f"to use `{nearest.variant.name}`, {' and '.join(remedies)}; or ask the publisher for one that fits"
