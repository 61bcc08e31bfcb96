"""The `kernel-build` program: one module per command; errors become words and exit codes here and nowhere else."""

from __future__ import annotations

import sys

import click
import typer

from kernelworks.errors import KernelworksError, UsageError
from kernelworks_build.cli import audit, build, check, init, lock, plan, publish
from kernelworks_build.cli.console import print_error

__all__ = ["app", "main"]

app = typer.Typer(
    help="Compile GPU kernels hermetically, audit them, and publish them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module in (init, check, plan, build, audit, publish, lock):
    app.command(module.NAME)(module.command)


def main() -> None:
    """Run the program and exit: 0, or the code of the error's family."""
    as_json = "--json" in sys.argv
    try:
        code = app(standalone_mode=False) or 0
    except KernelworksError as error:
        print_error(error, as_json=as_json)
        code = error.exit_code
    except click.Abort:
        code = 130
    except click.ClickException as error:
        if as_json:
            print_error(UsageError(error.format_message()), as_json=True)
        else:
            error.show()
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
