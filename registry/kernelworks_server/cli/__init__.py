"""The `kernel-registry` program: it serves, and it manages a registry's people and kernels beside a server that runs.

Data goes to stdout, with `--json` as one document; all else to stderr. Errors become words and exit codes here only.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import typer
from obstore.exceptions import BaseError
from sqlalchemy.exc import SQLAlchemyError

from kernelworks.errors import HostError, KernelworksError, UsageError
from kernelworks_server.cli import archives, kernels, people, serving, upkeep
from kernelworks_server.cli.command import group

__all__ = ["app", "main"]

_ROOMS = (serving, people, kernels, upkeep, archives)
_PROGRAM = "kernel-registry"  # however it was started
_CommandLineError: Any = typer.BadParameter.__base__  # typer brings its own click, or takes the installed one

app = group("A Hub for kernels on your own machine.")
for _room in _ROOMS:
    app.add_typer(_room.commands)


def main() -> None:
    """Run the program and exit: 0, or the code of the error's family; 2 for a wrong command line."""
    as_json = "--json" in sys.argv[1:]
    try:
        arguments = sys.argv[1:] or ["--help"]
        sys.exit(app(arguments, prog_name=_PROGRAM, standalone_mode=False))  # what is wrong is told below, as all else
    except KernelworksError as error:
        failure = error
    except _CommandLineError as error:
        program = error.ctx.command_path if error.ctx else _PROGRAM
        failure = UsageError.of_command_line(error.format_message(), program)
    except OSError as error:
        failure = HostError(f"this system refuses: {error}", file=error.filename)
    except BaseError as error:
        failure = HostError(f"the object store refuses: {str(error).splitlines()[0]}")
    except SQLAlchemyError as error:
        failure = HostError(f"the database refuses: {getattr(error, 'orig', None) or error}")
    if as_json:
        print(json.dumps({"error": failure.to_json()}, indent=2))  # noqa: T201
    else:
        print(f"error: {failure}", file=sys.stderr)  # noqa: T201
    sys.exit(failure.exit_code)
