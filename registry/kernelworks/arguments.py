"""Which arguments can be right: checked before anything is read or asked."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

from kernelworks.backends import registered
from kernelworks.errors import UsageError
from kernelworks.model.decode import printable
from kernelworks.transport.repo_id import check_commit_or_ref, check_repo_id

__all__ = ["agent_text", "check_arguments", "check_backend", "check_consent", "check_registry", "quoted"]

_LONGEST_AGENT = 500


def check_arguments(
    repo_id: str,
    version: int | None,
    revision: str | None,
    backend: str | None,
    trust_remote_code: bool = False,
) -> None:
    """Return if these arguments of `get_kernel` can be right together.

    Raises:
        UsageError: They cannot.
    """
    check_repo_id(repo_id)
    if version is not None and (type(version) is not int or version < 0):
        raise UsageError(f"version must be an integer of zero or more, not {quoted(version)}", hint="write `version=1`")
    if revision is not None:
        check_commit_or_ref(revision)
        if version is not None:
            raise UsageError("`version` and `revision` are both given", hint="a version is a revision: give one")
    check_consent(trust_remote_code)
    check_backend(backend)


def check_consent(trust_remote_code: bool) -> None:
    """Return if `trust_remote_code` is a yes or a no.

    Raises:
        UsageError: It is something else, which could be taken for a yes.
    """
    if type(trust_remote_code) is not bool:
        raise UsageError(f"trust_remote_code must be True or False, not {quoted(trust_remote_code)}")


def check_backend(backend: str | None) -> None:
    """Return if `backend` is None or the name of a backend.

    Raises:
        UsageError: It is not; it names the nearest.
    """
    if backend is None or (isinstance(backend, str) and backend in registered()):
        return
    near = difflib.get_close_matches(str(backend).lower(), registered(), 1)
    raise UsageError(
        f"backend `{printable(str(backend))}` is not known (known: {', '.join(sorted(registered()))})",
        hint=f"did you mean `{near[0]}`?" if near else None,
        backend=str(backend),
    )


def check_registry(registry: str | os.PathLike[str] | None) -> None:
    """Return if `registry` is None, a text or a path.

    Raises:
        UsageError: It is something else.
    """
    if registry is not None and not isinstance(registry, str | os.PathLike):
        raise UsageError(f"registry must be a path or a URL, not {quoted(registry)}")


def quoted(value: object) -> str:
    """`value`, of any type, as a message names it."""
    return f"the text `{printable(value)}`" if isinstance(value, str) else f"`{value!r}`"


def agent_text(user_agent: str | Mapping[str, str] | None) -> str:
    """`user_agent`, a text or pairs of texts, as it is sent.

    Raises:
        UsageError: It cannot be sent.
    """
    text = user_agent or ""
    if isinstance(text, Mapping):
        text = "; ".join(f"{key}/{value}" for key, value in text.items())
    if not isinstance(text, str) or not (text.isascii() and text.isprintable() and len(text) <= _LONGEST_AGENT):
        raise UsageError(
            f"user_agent must be a text or pairs of texts, printable ASCII of at most {_LONGEST_AGENT} characters",
            hint='write `user_agent={"my-library": "1.2"}`',
        )
    return text
