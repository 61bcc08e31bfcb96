"""Runs one command with the host tree's tools, for the part of another tree that needs a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from kernelworks_build.action import Action, Executor, Limits, Mount, Tree
from kernelworks_build.errors import ToolchainError

__all__ = ["run_in_host"]

_ENV = {"LC_ALL": "C", "PATH": "/usr/bin"}
_LIMITS = Limits(memory_bytes=2 << 30, wall_seconds=600)


def run_in_host(
    argv: tuple[str, ...],
    into: Path,
    *mounts: Mount,
    host: Tree,
    executor: Executor,
    env: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run `argv` with the tree `host` at `/usr` and the folder `into` as `/build`, where its results stay.

    `env` comes on top of what every such command is given.

    Raises:
        ToolchainError: The command fails; `context["log"]` is its output.
        SandboxError: The executor cannot work here.
    """
    variables = tuple(sorted({**_ENV, **env}.items()))
    action = Action(argv, variables, (Mount("/usr", host), *mounts), outputs=(), limits=_LIMITS)
    with TemporaryDirectory(prefix="kernelworks-") as folder:
        log = Path(folder, "log")
        result = executor.run(action, into, log)
        output = log.read_text(encoding="utf-8", errors="replace")
    if result.exit_code:
        said = output.rstrip().rpartition("\n")[2] or "it said nothing"
        raise ToolchainError(
            f"a tree cannot be made: `{argv[0]}` failed with exit code {result.exit_code}: {said}",
            hint="the host tree does not fit this builder: `kernel-build lock --host` pins it anew",
            argv=argv,
            log=output,
        )
