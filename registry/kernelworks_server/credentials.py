"""What a request shows to say who asks."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["bearer_of"]


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """The token of the `Authorization` header, or None where it has none (RFC 6750)."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
