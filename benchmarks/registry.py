"""What a registry carries: index reads, downloads, uploads, ten thousand kernels, and a server that is killed.

    python -m benchmarks.registry [ROOM...] [--rounds N] [--json]

The server has one core, and whoever asks it another. What is compared is measured in turns, in the same run: the ratio
is the median over the rounds. CPU time is that of the server alone, and tells most on a machine that others use too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.serving import crowd, downloads, kills, reads, uploads
from benchmarks.serving.figures import table
from benchmarks.serving.processes import CLIENT_CORE

_ROOMS = {module.__name__.rpartition(".")[2]: module.measure for module in (reads, downloads, uploads, crowd, kills)}


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(_ROOMS)}; default: all")
    parser.add_argument("--rounds", type=int, default=3, help="how often each comparison is repeated")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    options = parser.parse_args()
    os.sched_setaffinity(0, {CLIENT_CORE})
    figures = []
    with TemporaryDirectory() as scratch:
        for room in options.rooms or _ROOMS:
            print(f"measuring {room}", file=sys.stderr)
            figures.extend(_ROOMS[room](Path(scratch), options.rounds))
    print(json.dumps([asdict(figure) for figure in figures], indent=2) if options.json else table(figures))


if __name__ == "__main__":
    main()
