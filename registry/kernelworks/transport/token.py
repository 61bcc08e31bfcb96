"""The token that a registry is sent: the one that huggingface_hub would find, and only where it belongs."""

from __future__ import annotations

from kernelworks import settings
from kernelworks.errors import UsageError
from kernelworks.transport.url import is_url, origin_of

__all__ = ["token_for"]

_OF_THE_HUB = "hf_"


def token_for(endpoint: str, *, named_by_file: bool = False) -> str | None:
    """The token for the registry at the URL `endpoint`, if there is one.

    One of the public Hub (`hf_...`) is for the endpoint that huggingface_hub talks to, and goes nowhere else. Another
    one is for the registries that the environment names; where it names none, for the one that the caller names, but
    not for one that is `named_by_file` alone: lock files and projects come from other people.

    Raises:
        UsageError: It cannot be sent.
    """
    token = settings.token()
    if token is None or not _belongs(token, endpoint, named_by_file):
        return None
    if not (token.isascii() and token.isprintable()):
        raise UsageError("the token holds characters that no token has", hint="look at HF_TOKEN, or log in again")
    return token


def _belongs(token: str, endpoint: str, named_by_file: bool) -> bool:
    if token.startswith(_OF_THE_HUB):
        owners: tuple[str, ...] = (settings.hub(),)
    else:
        owners = tuple(filter(is_url, settings.registries())) or (() if named_by_file else (endpoint,))
    return origin_of(endpoint) in {origin_of(owner) for owner in owners}
