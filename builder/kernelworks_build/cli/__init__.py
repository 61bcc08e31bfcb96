"""The `kernel-build` program: one module per command; errors become words and exit codes here and nowhere else."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kernelworks._version import __version__
from kernelworks.errors import HostError, KernelworksError, UsageError
from kernelworks.settings import cache_root
from kernelworks_build.cli.console import note, print_error

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = (
    *("init", "check", "migrate", "plan", "build", "shell", "audit", "rebuild", "test", "publish", "export"),
    *("lock", "toolchain", "cache", "doctor"),
)

_INTERRUPTED = 130  # as shells count SIGINT
_PROGRAM = "kernel-build"  # however it was started
_CommandLineError: Any = typer.BadParameter.__base__  # typer brings its own click, or takes the installed one
_REMEDIES = {
    errno.EACCES: "give yourself the right to it, or name another file or folder",
    errno.EDQUOT: "free space there, or name another folder",
    errno.ENOSPC: "free space where the output, the cache (`{cache}`) and temporary files (`{temporary}`) lie, or name"
    " other folders: by `--out` or `--dir`, KERNELWORKS_CACHE, TMPDIR",
    errno.EROFS: "name a folder that can be written",
}


class _Commands(TyperGroup):
    """Imports a command when it is called: `plan` does not wait for what `audit` needs."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "commands": dict.fromkeys(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002  # the signature is typer's
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"{__name__}.{cmd_name}")
        if group := getattr(module, "group", None):
            return get_command(group)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)  # what stands in brackets is no markup
        single.command(cmd_name, cls=getattr(module, "Form", None))(module.command)
        return get_command(single)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            note("interrupted")
            sys.exit(_INTERRUPTED)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:  # the signature is typer's
    if wanted:
        sys.stdout.write(f"kernel-build {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[  # its callback does all
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Compile GPU kernels hermetically, audit them, and publish them."""


def main() -> None:
    """Run the program and exit: 0, the code of the error's family (2: a wrong command line), 130 after an interrupt."""
    as_json = _wants_json(sys.argv[1:])
    try:
        arguments = sys.argv[1:] or ["--help"]
        sys.exit(app(arguments, prog_name=_PROGRAM, standalone_mode=False))  # what is wrong is told below, as all else
    except KernelworksError as error:
        _fail(error, as_json=as_json)
    except _CommandLineError as error:
        program = error.ctx.command_path if error.ctx else _PROGRAM
        _fail(UsageError.of_command_line(error.format_message(), program), as_json=as_json)
    except OSError as error:
        _fail(_host_error(_first_of(error)), as_json=as_json)


def _wants_json(arguments: Sequence[str]) -> bool:
    return bool(re.search(r"\0(--json|--format[=\0]json)\0", "\0".join(["", *arguments, ""])))


def _first_of(error: OSError) -> OSError:
    """What a copy of a folder met first: `shutil.Error` lists (source, target, words) of every file that failed."""
    if not isinstance(error, shutil.Error) or not isinstance(error.args[0], list):
        return error
    _, target, words = error.args[0][0]
    number = re.match(r"\[Errno (\d+)\]", words)
    return OSError(int(number[1]), words, target) if number else OSError(words)


def _host_error(error: OSError) -> HostError:
    """What the system refused, where nobody on the way knew better."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    paths = [str(path) for path in (error.filename, error.filename2) if path is not None]
    hint = _REMEDIES.get(error.errno or 0, "name another file or folder, or put right what is there")
    cache = cache_root()
    if "KERNELWORKS_CACHE" not in hint and any(Path(path).is_relative_to(cache) for path in paths):
        hint += "; KERNELWORKS_CACHE names another cache"
    return HostError(
        f"{' -> '.join(f'`{path}`' for path in paths)}: {reason}" if paths else reason,
        hint=hint.format(cache=cache, temporary=gettempdir()),
        path=paths[0] if paths else None,
        reason=reason,
    )


def _fail(error: KernelworksError, *, as_json: bool) -> NoReturn:
    print_error(error, as_json=as_json)
    sys.exit(error.exit_code)
