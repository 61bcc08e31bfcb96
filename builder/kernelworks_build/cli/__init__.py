"""The `kernel-build` program: one module per command; errors become words and exit codes here and nowhere else."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kernelworks.errors import KernelworksError
from kernelworks_build.cli.console import print_error

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = ("init", "check", "plan", "build", "audit", "test", "publish", "lock")


class _Commands(TyperGroup):
    """Imports a command when it is called: `plan` does not wait for what `audit` needs."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # the signature is typer's
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        single = typer.Typer(add_completion=False)
        single.command(cmd_name)(import_module(f"{__name__}.{cmd_name}").command)
        return get_command(single)


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _root() -> None:
    """Compile GPU kernels hermetically, audit them, and publish them."""


def main() -> None:
    """Run the program and exit: 0, 2 for a wrong command line, or the code of the error's family."""
    try:
        app()
    except KernelworksError as error:
        print_error(error, as_json="--json" in sys.argv)
        sys.exit(error.exit_code)
