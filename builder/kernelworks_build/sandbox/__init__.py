"""The executors of an `Action`, by name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from kernelworks.errors import UsageError
from kernelworks_build.action import Executor
from kernelworks_build.errors import SandboxError
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.sandbox.none import Unisolated

__all__ = ["EXECUTORS", "executor"]

EXECUTORS: dict[str, Callable[[], Executor]] = {Bwrap.name: Bwrap, Unisolated.name: Unisolated}
"""Name, as `--sandbox` and the provenance know it, to executor."""

_PLANNED = ("nix",)


def executor(name: str) -> Executor:
    """The executor called `name`; whether it works here is said by its `check()`.

    Raises:
        SandboxError: It is planned and not there yet.
        UsageError: No executor has that name.
    """
    if make := EXECUTORS.get(name):
        return make()
    if name in _PLANNED:
        raise SandboxError(f"the `{name}` sandbox is not built yet", hint=f"use `{Bwrap.name}`", name=name)
    known = ", ".join(EXECUTORS)
    nearest = get_close_matches(name, EXECUTORS, n=1, cutoff=0.5)
    raise UsageError(
        f"`{name}` is not a known sandbox (known: {known})",
        hint=f"did you mean `{nearest[0]}`?" if nearest else None,
        name=name,
        known=list(EXECUTORS),
    )
