"""The executors of an `Action`, by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING

from kernelworks.errors import UsageError
from kernelworks_build.action import Executor
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.sandbox.none import Unisolated

if TYPE_CHECKING:
    from kernelworks_build.toolchain.lock import LockSet

__all__ = ["EXECUTORS", "executor"]


def _nix(locks: LockSet | None) -> Executor:
    from kernelworks_build.sandbox.nix import Nix  # noqa: PLC0415  # it brings the toolchain along

    return Nix(locks=locks)


EXECUTORS: dict[str, Callable[[LockSet | None], Executor]] = {
    "bwrap": lambda _: Bwrap(),
    "nix": _nix,
    "none": lambda _: Unisolated(),
}
"""Name, as `--sandbox` and the provenance know it, to executor."""


def executor(name: str, locks: LockSet | None = None) -> Executor:
    """The executor called `name`; whether it works here is said by its `check()`.

    What it needs itself is pinned by `locks`, or by those that are shipped.

    Raises:
        UsageError: No executor has that name.
    """
    if make := EXECUTORS.get(name):
        return make(locks)
    known = ", ".join(EXECUTORS)
    nearest = get_close_matches(name, EXECUTORS, n=1, cutoff=0.5)
    raise UsageError(
        f"`{name}` is not a known sandbox (known: {known})",
        hint=f"did you mean `{nearest[0]}`?" if nearest else None,
        name=name,
        known=list(EXECUTORS),
    )
