"""What a registry means that answers without what it was asked for: the error, in words, for each such answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelworks.errors import KernelworksError, RepositoryError, TransportError, UnknownRepositoryError
from kernelworks.transport.client import Answer
from kernelworks.transport.repo_id import is_pinned, version_of

__all__ = ["no_revision", "refusal", "unexpected"]

_UNAUTHORIZED, _NOT_FOUND = 401, 404


def refusal(answer: Answer, registry: str, repo_id: str, wanted: str, has_token: bool) -> KernelworksError:
    """The error for `answer` of `registry`.

    Args:
        answer: Without what was asked for.
        registry: Its endpoint.
        repo_id: The repository that was asked for.
        wanted: The file that was asked for, and its revision, in words.
        has_token: Whether the registry knows who asks.
    """
    facts = {"repo_id": repo_id, **_facts(answer, registry)}
    if answer.code == "GatedRepo":
        message = f"`{repo_id}` is for those whom its publisher admits: {answer.words}"
        return RepositoryError(message, hint=f"ask on its page, `{registry}/kernels/{repo_id}`", **facts)
    if answer.code == "RepoNotFound" or (answer.status == _UNAUTHORIZED and not answer.code):
        return UnknownRepositoryError(
            f"registry `{registry}` shows no repository `{repo_id}` ({answer.words})",
            hint="look at its name; a private one is shown only to a token that may read it"
            + ("" if has_token else ", and none for this registry is set (HF_TOKEN)"),
            **facts,
        )
    if answer.code == "EntryNotFound":
        return RepositoryError(f"`{repo_id}` lacks the file {wanted}", **facts)
    return unexpected(answer, registry)


def no_revision(answer: Answer, registry: str, repo_id: str, revision: str, versions: Sequence[int]) -> RepositoryError:
    """The error for `answer`, that the repository, which has `versions`, has no such revision."""
    there = ", ".join(map(str, versions)) or "none"
    version = version_of(revision)
    if version is not None:
        message = f"`{repo_id}` has no version {version} (there are: {there})"
    else:
        kind = "commit" if is_pinned(revision) else "ref"
        message = f"`{repo_id}` has no {kind} `{revision}` (its versions are: {there})"
    return RepositoryError(message, repo_id=repo_id, revision=revision, **_facts(answer, registry))


def unexpected(answer: Answer, registry: str) -> TransportError:
    """The error for `answer`, which no registry gives."""
    return TransportError(
        f"`{answer.url}` answered: {answer.words}",
        hint="is the URL that of a registry of kernels?" if answer.status == _NOT_FOUND else None,
        **_facts(answer, registry),
    )


def _facts(answer: Answer, registry: str) -> dict[str, Any]:
    return {"registry": registry, "status": answer.status, "url": answer.url}
