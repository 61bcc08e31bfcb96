"""`kernelworks explain`."""

from __future__ import annotations

import argparse

from kernelworks import api
from kernelworks.cli import Output
from kernelworks.cli.table import table, terminal_width
from kernelworks.compat import Rejected, Verdict
from kernelworks.errors import ResolveError
from kernelworks.resolve import ways_out

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> Output:
    """The verdict on every variant; the exit code is that of `ResolveError` where none fits."""
    found = api.explain(
        arguments.repo_id,
        version=arguments.version,
        revision=arguments.revision,
        backend=arguments.backend,
        registry=arguments.registry,
    )
    where = "local folder" if found.version is None else f"version {found.version}"
    rows = [_row(verdict, found.chosen) for verdict in found.verdicts]
    text = f"{found.subject}, {where}\n{table(('variant', 'fits', 'why not'), rows, terminal_width())}"
    if found.chosen:
        return Output(found.to_json(), text)
    ways = ways_out(found.verdicts)
    lines = list(map(str, ways)) or ["nothing here makes any of them fit: ask the publisher for one that does"]
    document = found.to_json() | {"ways_out": [way.to_json() for way in ways]}
    error = ResolveError(f"no variant of `{found.subject}` fits this process", subject=found.subject)
    return Output(document, "\n".join([text, *lines]), error)


def _row(verdict: Verdict, chosen: str | None) -> tuple[str, str, str]:
    name = verdict.variant.name
    if isinstance(verdict, Rejected):
        return name, "no", "; ".join(reason.text for reason in verdict.reasons)
    return name, "taken" if name == chosen else "yes", ""
