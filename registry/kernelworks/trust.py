"""Whose code may run: that of publishers whom the registry calls trusted, and what the caller has consented to."""

from __future__ import annotations

from kernelworks.errors import TransportError, TrustError
from kernelworks.transport import Transport

__all__ = ["check_trust"]


def check_trust(transport: Transport, repo_id: str) -> None:
    """Return if code of the publisher of `repo_id` may run though the caller has not consented.

    Raises:
        TrustError: It may not.
        TransportError: The registry does not answer; no advice to trust follows from that.
    """
    publisher = repo_id.partition("/")[0]
    try:
        trusted = transport.trusts(publisher)
    except TransportError as error:
        raise TransportError(
            f"registry `{transport.location}` does not say whether `{publisher}` is a trusted publisher:"
            f" {error.message}",
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
