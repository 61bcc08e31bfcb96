"""The Action: one hermetic command, in the shape of the Remote Execution API, and what running it gives.

Paths in an action are those inside the sandbox and never depend on the machine. An executor
(`sandbox/`) mounts the trees, runs the command in `/build` and returns an `ActionResult`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kernelworks.model.digest import canonical_json, hash_bytes

__all__ = ["BUILD", "Action", "ActionResult", "Executor", "JobUsage", "Limits", "Mount", "Tree"]

BUILD = "/build"
"""The only writable mount besides `/tmp`; every action starts there."""


@dataclass(frozen=True)
class Tree:
    """A read-only folder with a known digest; where it lies on this machine is not part of its identity."""

    digest: str
    path: Path = field(compare=False)


@dataclass(frozen=True)
class Mount:
    """`tree` as seen at the absolute path `target` inside the sandbox."""

    target: str
    tree: Tree


@dataclass(frozen=True)
class Limits:
    """What an action may use at the most: bytes of memory (all processes together) and wall seconds."""

    memory_bytes: int
    wall_seconds: int


@dataclass(frozen=True)
class Action:
    """One command.

    Attributes:
        argv: Command and arguments, paths as inside the sandbox.
        env: The whole environment as sorted (name, value) pairs; nothing is inherited.
        mounts: Read-only trees. The one at `/usr` also is what `/bin`, `/lib`, ... link to.
        outputs: Paths relative to `/build` that must exist afterwards.
        limits: Not part of the digest: they decide whether it finishes, not what it makes.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]
    outputs: tuple[str, ...]
    limits: Limits = field(compare=False)

    def digest(self) -> str:
        """SHA-256 of what decides the result: argv, env, mounts (target and tree digest) and outputs."""
        return hash_bytes(
            canonical_json(
                {
                    "argv": list(self.argv),
                    "env": dict(self.env),
                    "mounts": {mount.target: mount.tree.digest for mount in self.mounts},
                    "outputs": list(self.outputs),
                }
            )
        )


@dataclass(frozen=True)
class JobUsage:
    """What one command that ninja started used, by samples of its processes.

    Attributes:
        command: Its command line, as the shell got it.
        cpu_seconds: User and system time.
        max_rss_bytes: Peak resident memory of its processes together.
    """

    command: str
    cpu_seconds: float
    max_rss_bytes: int


@dataclass(frozen=True)
class ActionResult:
    """What a run gave.

    Attributes:
        exit_code: Of the command; negative signal number where a signal ended it.
        timed_out: The wall limit ended it.
        out_of_memory: The memory limit ended it or one of its processes.
        log: The whole stdout and stderr, in order.
        build_dir: The folder that was `/build`.
        cpu_seconds: User and system time of all processes.
        max_rss_bytes: Peak resident memory of the largest process.
        executor: `bwrap`, `none`, ...
        hermetic: Whether the executor isolates an action from the host.
        missing_outputs: Outputs of the action that are not there, or only behind a symbolic link.
        jobs: What each command of ninja used that ran long enough to be seen.
    """

    exit_code: int
    timed_out: bool
    out_of_memory: bool
    log: Path
    build_dir: Path
    cpu_seconds: float
    max_rss_bytes: int
    executor: str
    hermetic: bool
    missing_outputs: tuple[str, ...] = ()
    jobs: tuple[JobUsage, ...] = ()


class Executor(Protocol):
    """A way to run actions: one file below `sandbox/` each."""

    name: str
    hermetic: bool

    def check(self) -> None:
        """Raise `SandboxError`, saying what is missing and what to do, where this executor cannot work here."""

    def run(
        self, action: Action, build_dir: Path, log: Path, on_line: Callable[[str], None] | None = None
    ) -> ActionResult:
        """Run `action` with `build_dir` as `/build`; output goes to `log`, and line by line to `on_line`.

        A command that fails is a result, not an error.
        """
