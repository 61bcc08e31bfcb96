"""`kernelworks`: what is published, which variant this process gets, and what this process is.

Data goes to stdout: a table for people, with `--json` exactly one document, errors included. All else goes to
stderr. The exit code is that of the error's class (`kernelworks.errors`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from kernelworks._version import __version__
from kernelworks.cli.live import live
from kernelworks.errors import HostError, KernelworksError, UsageError

__all__ = ["Output", "main"]

_INTERRUPTED = 130
"""As shells report SIGINT."""


@dataclass(frozen=True)
class Output:
    """What a command found: the document, its text, and the error that decides the exit code, if any."""

    document: dict[str, Any]
    text: str
    error: KernelworksError | None = None


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would print and exit, so that `--json`, never shortened, holds for bad arguments too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError.of_command_line(message, self.prog)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    try:
        output = _run(arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    if as_json:
        print(json.dumps(output.document, indent=2))  # noqa: T201  # ASCII: any terminal can write it
    elif output.text:
        print(output.text)  # noqa: T201
    if output.error is None:
        return 0
    if not as_json:
        print(f"error: {output.error}", file=sys.stderr)  # noqa: T201
    return output.error.exit_code


def _run(arguments: Sequence[str]) -> Output:
    try:
        parsed = _parser().parse_args(arguments)
        module = importlib.import_module(f"{__name__}.{parsed.command}")  # so that `--help` costs nothing
        with live():
            output: Output = module.run(parsed)
    except OSError as error:
        failure: KernelworksError = HostError(f"this system refuses: {error}", file=error.filename)
    except KernelworksError as error:
        failure = error
    else:
        return output
    return Output({"error": failure.to_json()}, "", failure)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="kernelworks", description="Find, verify and load published kernels.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("--json", action="store_true", help="one JSON document on stdout")
        added.set_defaults(command=name)
        return added

    explain = add("explain", "which variant this process gets, and every reason why not the others")
    info = add("info", "versions, variants, archs, sizes")
    verify = add("verify", "whether a registry has every byte as it was published, or as it was locked")
    lock = add("lock", "write the commits and digests of a project's kernels into its `kernelworks.lock`")
    sync = add("sync", "fetch and verify what a lock file names for this process")
    add("list", "the kernels in the cache")
    add("doctor", "what this machine and process are")
    for command in (explain, info, verify):
        command.add_argument("repo_id", metavar="org/name", nargs="?" if command is verify else None)
    for command in (explain, info, verify, lock, sync):
        command.add_argument("--registry", metavar="URL|FOLDER", help="instead of KERNELWORKS_REGISTRY")
    for command in (lock, sync):
        command.add_argument("folder", metavar="DIR", nargs="?", default=".", help="of the project")
    lock.add_argument("--upgrade", action="store_true", help="let every commit be the newest, not only new ones")
    sync.add_argument("--all-variants", action="store_true", help="those that do not fit this process too")
    sync.add_argument("--trust-remote-code", action="store_true", help="consent to run code of any publisher in it")
    explain.add_argument("--version", type=int, metavar="N", help="instead of the newest that fits")
    verify.add_argument("--version", type=int, metavar="N", help="instead of the newest")
    verify.add_argument("--lock", metavar="FILE|DIR", help="all that this lock file names, instead of a repository")
    explain.add_argument("--revision", metavar="COMMIT", help="a commit or ref, instead of a version")
    explain.add_argument("--backend", metavar="NAME", help="instead of the one that torch is built for")
    return parser
