"""Every error of the project: one hierarchy, one exit code per family.

An error says what happened, why, and (in `hint`) what to do next. The facts it speaks of (path, line,
variant, digest expected and got) are in `context`: `--json` prints them, and callers can branch on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

__all__ = [
    "HostError",
    "KernelworksError",
    "LayerError",
    "LoadError",
    "LockError",
    "RepositoryError",
    "ResolveError",
    "TransportError",
    "TrustError",
    "UnknownRepositoryError",
    "UsageError",
    "VerifyError",
    "together",
]


class KernelworksError(Exception):
    """The root of all errors that this project raises on purpose.

    Args:
        message: What happened and why; lower-case start, values in backticks.
        hint: What to do next, or None where nothing better than the message can be said.
        context: The facts, JSON-serialisable, by name.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context

    def __str__(self) -> str:
        separator = "\n" if "\n" in self.message else "; "
        return f"{self.message}{separator}{self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.context))

    def to_json(self) -> dict[str, Any]:
        """The error as one JSON object: code, message, hint, context."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "context": {key: _plain(value) for key, value in self.context.items()},
        }


def together(errors: Sequence[KernelworksError]) -> KernelworksError:
    """One error that tells all of `errors`, of the family of the first; a single one is that error."""
    if len(errors) == 1:
        return errors[0]
    return type(errors[0])("\n".join(map(str, errors)), errors=[error.to_json() for error in errors])


def _rebuild(kind: type[KernelworksError], message: str, hint: str | None, context: dict[str, Any]) -> KernelworksError:
    return kind(message, hint=hint, **context)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return str(value)


class UsageError(KernelworksError):
    """An argument has a value that no state of the world could make right."""

    code = "usage"
    exit_code = 2

    @classmethod
    def of_command_line(cls, message: str, program: str) -> UsageError:
        """What a parser of command lines says, in the words of all other errors; `program --help` says more."""
        words = message[:1].lower() + message[1:].rstrip(".").replace("'", "`")
        return cls(words, hint=f"see `{program} --help`")


class RepositoryError(KernelworksError):
    """The registry answered, and what it holds is missing or malformed."""

    code = "repository"
    exit_code = 10


class UnknownRepositoryError(RepositoryError):
    """The registry answered that it has no such repository, or shows none to this token."""


class TransportError(KernelworksError):
    """The registry could not be read."""

    code = "transport"
    exit_code = 11


class HostError(KernelworksError):
    """This machine or process lacks something that a kernel needs."""

    code = "host"
    exit_code = 12


class ResolveError(KernelworksError):
    """No variant fits this process; `context["rejections"]` holds every reason per variant."""

    code = "resolve"
    exit_code = 13


class VerifyError(KernelworksError):
    """Bytes are not the bytes that were published; `context` holds file, expected and got."""

    code = "verify"
    exit_code = 14


class LoadError(KernelworksError):
    """The kernel's own code failed while it was imported."""

    code = "load"
    exit_code = 15


class TrustError(KernelworksError):
    """Nobody has consented to run code of this publisher."""

    code = "trust"
    exit_code = 16


class LayerError(KernelworksError):
    """A layer of a model cannot run a kernel as asked; `context["layers"]` holds why for each."""

    code = "layer"
    exit_code = 17


class LockError(KernelworksError):
    """A lock file, or the list of kernels that it is made from, is missing, malformed or lacks what is asked for."""

    code = "lock"
    exit_code = 18
