"""`kernelworks doctor`."""

from __future__ import annotations

import argparse
from typing import Any

from kernelworks import host, settings
from kernelworks._version import __version__
from kernelworks.backends.spec import HostBackend
from kernelworks.cli import Output
from kernelworks.cli.table import table, terminal_width
from kernelworks.compat import Reason
from kernelworks.diagnosis import Suit, problems, suits
from kernelworks.errors import HostError
from kernelworks.model.cpu_features import levels_of
from kernelworks.model.variant_name import format_version
from kernelworks.sources import registries_of

__all__ = ["run"]


def run(_arguments: argparse.Namespace) -> Output:
    """What this process is, which variants would load in it, and what is amiss; where kernels come from and go to.

    A torch that cannot be imported is a problem, and the error that decides the exit code; the rest is told all
    the same, as of a process without torch.
    """
    failure: HostError | None = None
    try:
        process = host.detect()
    except HostError as error:
        failure, process = error, host.describe(None)
    amiss = (Reason(failure.message, failure.hint),) if failure else problems(process)
    place: dict[str, Any] = {
        "kernelworks": __version__,
        "registries": [str(one) for one in registries_of(None)],
        "cache": str(settings.cache_root()),
    }
    document = {
        **place,
        "host": process.to_json(),
        "fits": [suit.to_json() for suit in suits(process)],
        "problems": [reason.to_json() for reason in amiss],
    }
    facts = (
        place
        | process.to_json()
        | {
            "registries": " ".join(place["registries"]),
            "backends": "; ".join(map(_offered, process.backends)),
            "cpu-features": ", ".join(levels_of(process.cpu_features)) or None,
        }
    )
    width = terminal_width()
    parts = [
        table(("fact", "value"), [(name, _shown(value)) for name, value in facts.items()], width),
        table(("would load", "ask with", "and"), list(map(_suit_row, suits(process))), width),
        table(("problem", "remedy"), [(one.text, one.remedy or "") for one in amiss], width) if amiss else "",
    ]
    return Output(document, "\n\n".join(filter(None, parts)), failure)


def _offered(offer: HostBackend) -> str:
    version, driver = (found and format_version(found) for found in (offer.version, offer.driver))
    parts = [
        f"{offer.name} {version}" if version else offer.name,
        *(f"device {device}" for device in offer.devices),
        *([f"driver for {driver}"] if driver else []),
    ]
    return ", ".join(parts)


def _suit_row(suit: Suit) -> tuple[str, str, str]:
    return suit.name, "" if suit.default else f'backend="{suit.backend}"', suit.others


def _shown(value: str | bool | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else "yes" if value else "no"
