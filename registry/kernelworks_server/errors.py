"""Every answer of the registry that is a refusal: one class per reason, with the HTTP status it becomes.

`X-Error-Code` is what the Hub's clients branch on and `X-Error-Message` what they show.
"""

# ruff: noqa: N818  # refusals are named as HTTP and the Hub name them

from __future__ import annotations

from typing import Any, ClassVar

from kernelworks.errors import KernelworksError
from kernelworks.model.decode import printable

__all__ = [
    "BadRequest",
    "Conflict",
    "EntryNotFound",
    "Forbidden",
    "InvalidSignature",
    "InvalidToken",
    "NotFound",
    "PreconditionFailed",
    "RepoMoved",
    "RepoNotFound",
    "RevisionNotFound",
    "ServerError",
    "SignInRequired",
    "TooLarge",
    "TooManyRequests",
    "Unprocessable",
]

_HEADER_LENGTH = 500


class ServerError(KernelworksError):
    """The root of all refusals of the registry."""

    code = "server"
    exit_code = 30
    status: ClassVar[int] = 500
    hub_code: ClassVar[str | None] = None

    def http(self) -> tuple[int, dict[str, str], dict[str, Any]]:
        """The status, the headers and the JSON body that tell a client."""
        headers = {"X-Error-Message": _header(str(self))}
        if self.hub_code is not None:
            headers["X-Error-Code"] = self.hub_code
        return self.status, headers, {"error": str(self)}


def _header(text: str) -> str:
    """`text` as a header may carry it: one printable line of ASCII."""
    return printable(text[:_HEADER_LENGTH]).encode("ascii", "backslashreplace").decode()


class BadRequest(ServerError):
    """What was asked makes no sense, whoever asks."""

    status = 400


class InvalidToken(ServerError):
    """The token is unknown, revoked or expired."""

    status = 401

    def __init__(self) -> None:
        # Clients compare this sentence letter by letter to tell a bad token from a private repository.
        super().__init__("Invalid credentials in Authorization header")


class SignInRequired(ServerError):
    """Somebody may do this, but nobody says who asks."""

    status = 401


class Forbidden(ServerError):
    """Who asks is known and lacks the right."""

    status = 403


class InvalidSignature(ServerError):
    """A signed URL or access token is forged, expired, or meant for something else."""

    status = 403


class NotFound(ServerError):
    """What was asked for does not exist."""

    status = 404


class RepoNotFound(NotFound):
    """No such repository, or none that who asks may know of; anonymous askers get 401, as on the Hub."""

    hub_code = "RepoNotFound"

    def __init__(self, message: str, *, anonymous: bool = False, **context: Any) -> None:
        super().__init__(message, **context)
        self.anonymous = anonymous

    def http(self) -> tuple[int, dict[str, str], dict[str, Any]]:
        _, headers, body = super().http()
        return (401 if self.anonymous else self.status), headers, body


class RepoMoved(NotFound):
    """The repository has another name now; whoever asks may read it there. An address leads on where it can."""

    hub_code = "RepoNotFound"

    def __init__(self, message: str, *, repo_id: str) -> None:
        super().__init__(message, hint="use the new name", repo_id=repo_id)
        self.repo_id = repo_id


class RevisionNotFound(NotFound):
    """The repository has no such branch, tag or commit."""

    hub_code = "RevisionNotFound"


class EntryNotFound(NotFound):
    """The commit has no such file or folder; `commit` is told, because clients cache the absence under it.

    `headers` hold what else is told of the commit.
    """

    hub_code = "EntryNotFound"

    def __init__(self, message: str, *, commit: str, **context: Any) -> None:
        super().__init__(message, commit=commit, **context)
        self.commit = commit
        self.headers: dict[str, str] = {}

    def http(self) -> tuple[int, dict[str, str], dict[str, Any]]:
        status, headers, body = super().http()
        return status, {**headers, **self.headers, "X-Repo-Commit": self.commit}, body


class Conflict(ServerError):
    """It exists already, or stands in the way."""

    status = 409


class PreconditionFailed(ServerError):
    """The branch has moved since the commit was prepared."""

    status = 412


class TooLarge(ServerError):
    """More bytes, files or operations than this registry takes at once."""

    status = 413


class TooManyRequests(ServerError):
    """Who asks has used up a quota; clients read `RateLimit` and wait (draft-ietf-httpapi-ratelimit-headers-09)."""

    status = 429

    def __init__(self, quota: str, *, requests: int, seconds: int, wait: int) -> None:
        super().__init__(
            f"more than {requests} requests in {seconds} s: this registry answers again in {wait} s",
            hint="the quota is that of your token, or of your address where you show none",
        )
        self._quota = quota
        self._policy = f"q={requests};w={seconds}"
        self._wait = wait

    def http(self) -> tuple[int, dict[str, str], dict[str, Any]]:
        status, headers, body = super().http()
        told = {
            "RateLimit": f'"{self._quota}";r=0;t={self._wait}',
            "RateLimit-Policy": f'"{self._quota}";{self._policy}',
            "Retry-After": str(self._wait),
        }
        return status, {**headers, **told}, body


class Unprocessable(ServerError):
    """The bytes are not those that were announced."""

    status = 422
