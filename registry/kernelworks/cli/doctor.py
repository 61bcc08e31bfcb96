"""`kernelworks doctor`."""

from __future__ import annotations

import argparse
import json

from kernelworks import host, settings
from kernelworks._version import __version__
from kernelworks.cli import Output
from kernelworks.cli.table import table

__all__ = ["run"]


def run(_arguments: argparse.Namespace) -> Output:
    """What decides the choice of a variant in this process, and where kernels come from and go to."""
    place = {
        "kernelworks": __version__,
        "registry": settings.registry(),
        "cache": str(settings.cache_root()),
    }
    process = host.detect().to_json()
    rows = [
        (name, value if isinstance(value, str) else json.dumps(value)) for name, value in {**place, **process}.items()
    ]
    return Output({**place, "host": process}, table(("fact", "value"), rows))
