"""`kernel-build doctor`: whether this machine can build, and what to do where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelworks.errors import HostError
from kernelworks.settings import cache_root
from kernelworks_build.checkup import check_up
from kernelworks_build.cli.console import JsonOption, print_json, print_table
from kernelworks_build.cli.project import ProjectArgument, open_locks
from kernelworks_build.sandbox import executor
from kernelworks_build.toolchain.origins import Origins


def command(
    project: ProjectArgument = Path(),
    *,
    sandbox: Annotated[str, typer.Option("--sandbox", help="bwrap, nix, or none.", metavar="NAME")] = "bwrap",
    as_json: JsonOption = False,
) -> None:
    """Say whether this machine can build: sandbox, disk, network. So does the exit code."""
    locks = open_locks(project)
    checks = check_up(cache_root(), locks, executor(sandbox, locks), Origins())
    if as_json:
        print_json({"checks": [check.to_json() for check in checks]})
    else:
        rows = ((check.name, "ok" if check.ok else "FAIL", check.found, check.remedy) for check in checks)
        print_table("this machine", ("what", "state", "found", "remedy"), rows)
    failed = [check.name for check in checks if not check.ok]
    if failed and as_json:
        raise typer.Exit(HostError.exit_code)
    if failed:
        raise HostError(f"a build lacks: {', '.join(failed)}", failed=failed)
