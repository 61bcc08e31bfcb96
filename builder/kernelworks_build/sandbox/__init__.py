"""The executors of an `Action`, by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from kernelworks.errors import UsageError
from kernelworks_build.action import Executor
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.sandbox.none import Unisolated

__all__ = ["EXECUTORS", "executor"]


def _nix() -> Executor:
    from kernelworks_build.sandbox.nix import Nix  # noqa: PLC0415  # it brings the toolchain along

    return Nix()


EXECUTORS: dict[str, Callable[[], Executor]] = {"bwrap": Bwrap, "nix": _nix, "none": Unisolated}
"""Name, as `--sandbox` and the provenance know it, to executor."""


def executor(name: str) -> Executor:
    """The executor called `name`; whether it works here is said by its `check()`.

    Raises:
        UsageError: No executor has that name.
    """
    if make := EXECUTORS.get(name):
        return make()
    known = ", ".join(EXECUTORS)
    nearest = get_close_matches(name, EXECUTORS, n=1, cutoff=0.5)
    raise UsageError(
        f"`{name}` is not a known sandbox (known: {known})",
        hint=f"did you mean `{nearest[0]}`?" if nearest else None,
        name=name,
        known=list(EXECUTORS),
    )
