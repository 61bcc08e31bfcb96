"""The command line of bubblewrap that gives an action the layout of every executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelworks_build.action import BUILD, Action
from kernelworks_build.sandbox import layout

__all__ = ["FRESH_PROC", "ISOLATION", "OUTER_PROC", "Dialect"]

ISOLATION = (
    *("--unshare-all", "--die-with-parent", "--clearenv"),
    *("--uid", str(layout.UID), "--gid", str(layout.GID), "--hostname", layout.HOSTNAME),
)
FRESH_PROC = ("--proc", "/proc")
OUTER_PROC = ("--ro-bind", "/proc", "/proc")
"""For inside another sandbox, where the kernel refuses a fresh `/proc`: the outer one must do, read-only.

Both are hermetic. The outer one adds the numbers and command lines of the outer processes to what a fresh one tells
of the machine anyhow (`cpuinfo`, `uptime`): no input of a build, and nothing that it can reach. Environment, open
files and root folder of a process are closed to a user namespace that is not its own (ptrace(2), access mode
checking).
"""


@dataclass(frozen=True)
class Dialect:
    """What a bubblewrap can do: the options for `/proc`, and whether a tmpfs can have a size."""

    proc: tuple[str, ...]
    sizes: bool

    def arguments(self, action: Action, build_dir: str, options: Sequence[str] = ()) -> list[str]:
        """What follows the program's name to run `action` with the folder `build_dir` as `/build`."""
        words = [*ISOLATION, *options]
        for name, value in layout.environment(action).items():
            words += ["--setenv", name, value]
        for mount in layout.outermost_first(action.mounts):
            words += ["--ro-bind", str(mount.tree.path), mount.target]
        for name, target in layout.ROOT_LINKS.items():
            words += ["--symlink", target, f"/{name}"]
        words += [*self.proc, "--dev", "/dev"]
        for folder in layout.SCRATCH:
            words += self._tmpfs(folder, action.limits.memory_bytes)
        words += ["--bind", build_dir, BUILD, "--chdir", BUILD]
        words += ["--remount-ro", "/dev", "--remount-ro", "/"]
        return [*words, "--", *action.argv]

    def _tmpfs(self, target: str, limit_bytes: int) -> tuple[str, ...]:
        return (*(("--size", str(limit_bytes)) if self.sizes else ()), "--tmpfs", target)
