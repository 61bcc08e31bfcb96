"""What all commands have in common: the options that lead to the registry, and how an answer is told."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelworks_server.config import open_config
from kernelworks_server.services import open_services

__all__ = ["DEFAULT_ROOT", "AsJson", "DatabaseUrl", "Root", "Said", "StoreUrl", "group", "on_registry", "say"]

DEFAULT_ROOT = Path("kernel-registry")

Root = Annotated[
    Path,
    typer.Option(
        help="the registry's folder; made where it is missing", file_okay=False, envvar="KERNEL_REGISTRY_ROOT"
    ),
]
DatabaseUrl = Annotated[  # by the environment as well: everybody on a machine can read a command line
    str | None,
    typer.Option(
        "--database", metavar="URL", help="instead of SQLite in the folder", envvar="KERNEL_REGISTRY_DATABASE"
    ),
]
StoreUrl = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="instead of a folder in the folder", envvar="KERNEL_REGISTRY_STORE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


@dataclass(frozen=True)
class Said:
    """What a command answers: as a document for `--json`, and in words."""

    document: dict[str, Any]
    text: str


def group(text: str | None = None) -> typer.Typer:
    """An empty group of commands."""
    return typer.Typer(help=text, add_completion=False, pretty_exceptions_enable=False)


def say(said: Said, *, as_json: bool) -> None:
    """Tell the answer on stdout."""
    print(json.dumps(said.document, indent=2) if as_json else said.text, flush=True)  # noqa: T201


def on_registry(act: Callable[..., Said]) -> Callable[..., None]:
    """`act` as a command: it is given the registry first, and the options that lead to it follow its own."""

    def run(
        *,
        root: Root = DEFAULT_ROOT,
        database: DatabaseUrl = None,
        store: StoreUrl = None,
        as_json: AsJson = False,
        **given: Any,
    ) -> None:
        services = open_services(open_config(root, database=database, store=store))
        try:
            said = act(services, **given)
        finally:
            services.close()
        say(said, as_json=as_json)

    _, *own = inspect.signature(act, eval_str=True).parameters.values()
    *common, _ = inspect.signature(run, eval_str=True).parameters.values()
    form: Any = functools.update_wrapper(run, act)
    form.__signature__ = inspect.Signature([*(each.replace(kind=each.KEYWORD_ONLY) for each in own), *common])
    return run
