"""Whose code may run: whom the policy allows, whom the caller consents to, whom the registry calls trusted."""

from __future__ import annotations

from kernelworks.errors import TransportError, TrustError
from kernelworks.policy import Rules
from kernelworks.transport import Transport

__all__ = ["check_allowed", "check_trust"]


def check_allowed(rules: Rules, repo_id: str, *, is_pinned: bool) -> None:
    """Return if the policy does not forbid to load `repo_id`, whatever the caller consents to.

    Raises:
        TrustError: It does.
    """
    if rules.verdict(repo_id) is False:
        raise TrustError(
            f"policy `{rules.origin}` denies `{repo_id}`",
            hint="no consent in a call changes that; ask whoever keeps the policy",
            repo_id=repo_id,
            policy=rules.origin,
        )
    if rules.pinned and not is_pinned:
        raise TrustError(
            f"policy `{rules.origin}` lets `{repo_id}` be loaded by its commit only",
            hint='give the commit: `revision="..."`; `kernelworks info` shows it',
            repo_id=repo_id,
            policy=rules.origin,
        )


def check_trust(transport: Transport, repo_id: str, commit: str, rules: Rules) -> None:
    """Return if code of the publisher of `repo_id` may run though the caller has not consented.

    Raises:
        TrustError: It may not.
        TransportError: The registry does not answer; no advice to trust follows from that.
    """
    if rules.verdict(repo_id):
        return
    publisher = repo_id.partition("/")[0]
    try:
        trusted = transport.trusts(repo_id, commit)
    except TransportError as error:
        raise TransportError(
            f"registry `{transport.location}` does not say whether `{publisher}` is a trusted publisher:"
            f" {error.message}",
            hint=error.hint,
            publisher=publisher,
            registry=transport.location,
        ) from error
    if not trusted:
        raise TrustError(
            f"`{repo_id}` runs code of `{publisher}`, whom registry `{transport.location}` does not call a trusted"
            " publisher",
            hint="read the code, and consent to it by `trust_remote_code=True`",
            repo_id=repo_id,
            publisher=publisher,
            registry=transport.location,
        )
