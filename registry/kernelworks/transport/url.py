"""URLs of registries: which texts are ones, and which of them name one server."""

from __future__ import annotations

from urllib.parse import urlsplit

from kernelworks.errors import UsageError
from kernelworks.model.decode import printable

__all__ = ["endpoint_of", "is_url", "origin_of"]

_SCHEMES = {"http": 80, "https": 443}


def is_url(location: str) -> bool:
    """Whether `location` names a server, and not a folder."""
    scheme, colon, _ = location.partition("://")
    return bool(colon) and scheme.lower() in _SCHEMES


def endpoint_of(location: str) -> str:
    """The URL `location` in its one form: scheme and host in lower case, no usual port, no slash at its end.

    Raises:
        UsageError: It is not the URL of a server.
    """
    try:
        parts = urlsplit(location)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if not parts.hostname or parts.query or parts.fragment or not location.isascii() or not location.isprintable():
        raise UsageError(f"`{printable(location)}` is not the URL of a registry", hint="write `https://host[:port]`")
    if parts.username is not None:
        raise UsageError("the URL of a registry has no place for a user", hint="set HF_TOKEN to a token instead")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    scheme = parts.scheme.lower()
    authority = host if port in {None, _SCHEMES[scheme]} else f"{host}:{port}"
    return f"{scheme}://{authority}{parts.path.rstrip('/')}"


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of `url`: what shares them is one server.

    Raises:
        ValueError: It is no URL.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _SCHEMES.get(parts.scheme)
