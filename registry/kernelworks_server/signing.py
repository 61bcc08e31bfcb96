"""Short-lived permissions that travel in URLs: bound to one action, repository and object, and to a time.

A grant is `BODY.MAC` in URL-safe characters: canonical JSON, and its HMAC-SHA-256 under the registry's secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from kernelworks.model.digest import canonical_json
from kernelworks_server.errors import InvalidSignature

__all__ = ["Grant", "Signer"]

_DEFAULT_SECONDS = 900
_LONGEST = 2_000  # characters of a token that anybody issued


@dataclass(frozen=True)
class Grant:
    """What a signature permits: `action` on object `oid` (`""`: any) of the repository `repo`, until `expires`.

    Attributes:
        size: The bytes that were announced, where the action is an upload.
        actor: On whose behalf it was issued.
        expires: Seconds since the epoch.
    """

    action: str
    repo: int
    oid: str
    size: int | None
    actor: str
    expires: int


class Signer:
    """Issues and checks grants under one secret."""

    def __init__(self, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = hashlib.sha256(b"kernel-registry grant\0" + secret).digest()
        self._clock = clock

    def issue(
        self,
        *,
        action: str,
        repo: int,
        oid: str = "",
        size: int | None = None,
        actor: str = "",
        seconds: int = _DEFAULT_SECONDS,
    ) -> str:
        """The token that permits this for so many seconds."""
        grant = Grant(action, repo, oid, size, actor, int(self._clock()) + seconds)
        body = canonical_json(asdict(grant))
        return f"{_encode(body)}.{_encode(self._mac(body))}"

    def check(self, token: str, *, action: str, repo: int | None = None, oid: str = "") -> Grant:
        """What `token` permits, if it is genuine, in time, and made for just this.

        Args:
            token: As issued.
            action: What is about to be done.
            repo: Where, or None to take the repository that the grant names.
            oid: With which object.

        Raises:
            InvalidSignature: Forged, expired, or made for another action, repository or object.
        """
        body, mac = _parts(token)
        if not hmac.compare_digest(mac, self._mac(body)):
            raise InvalidSignature("this signature is not one of this registry's")
        grant = Grant(**json.loads(body))
        if grant.expires <= self._clock():
            raise InvalidSignature("this signature has expired", hint="ask for a new one", expires=grant.expires)
        if (grant.action, grant.oid) != (action, oid) or repo not in {None, grant.repo}:
            raise InvalidSignature("this signature permits something else")
        return grant

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _parts(token: str) -> tuple[bytes, bytes]:
    texts = token.split(".") if len(token) <= _LONGEST else []
    try:
        body, mac = (base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True) for text in texts)
    except ValueError as error:
        raise InvalidSignature("this is not a signature") from error
    return body, mac
