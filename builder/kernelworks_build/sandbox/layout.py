"""What every action finds, whichever executor runs it: user, environment and the shape of the root folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from kernelworks_build.action import BUILD, Action, Mount

__all__ = [
    "GID",
    "HOSTNAME",
    "ROOT_LINKS",
    "SCRATCH",
    "UID",
    "environment",
    "missing_outputs",
    "outermost_first",
]

UID = GID = 1000
HOSTNAME = "build"

ROOT_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
"""Name below `/` to its target: the host tree is mounted at `/usr`, as merged-/usr systems have it."""

SCRATCH = ("/dev/shm", "/tmp")  # noqa: S108  # the sandbox's own
"""Writable, and gone with the action."""


def environment(action: Action) -> dict[str, str]:
    """The whole environment of the command: the action's, and the `PWD` that bubblewrap always sets."""
    return {**dict(action.env), "PWD": BUILD}


def outermost_first(mounts: Iterable[Mount]) -> list[Mount]:
    """`mounts` so that a mount comes after those it lies in."""
    return sorted(mounts, key=lambda mount: PurePosixPath(mount.target).parts)


def missing_outputs(action: Action, build_dir: Path) -> tuple[str, ...]:
    """The outputs of `action` that are not in `build_dir`.

    One behind a symbolic link is missing too: outside the sandbox the link may lead to a file of the host.
    """
    folder = build_dir.resolve()
    paths = {output: folder / output for output in action.outputs}
    return tuple(output for output, path in paths.items() if not path.exists() or path.resolve() != path)
