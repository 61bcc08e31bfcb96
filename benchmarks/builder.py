"""What builds cost: CPU seconds, memory and downloads, beside the same kernel built by torch's own `cpp_extension`.

    python -m benchmarks.builder [--kernel full|stable|gfx]... [--archs 8] [--matrix] [--from-nothing] [--json]

One kernel of the full ABI (`tests/builder/fixtures/scale`) and one of the stable ABI (the `stable_abi` template), from
a cache without results: cold, again, for one more torch, for one more arch, and after an edit of one file. CPU seconds
are user and system time of a command and of all that it waited for; memory is the peak of one translation unit with its
processes. The last column compares: a cold build with `cpp_extension`, which compiles the CPU variant with the whole
headers of one torch, and an edit with the compile of the edited file alone: its command in that build, without the
link, as sampled every 0.1 s. What it used after the last look is missing, so the ratio is a little too high. `gfx` is
the `multi_backend` template for ROCm: torch's headers for HIP, which are made once, and device code for more and more
architectures, whose host code is made with the first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.building import frameworks, rocm
from benchmarks.building.costs import Options, Step, table

KERNELS: dict[str, Callable[[Path, Options], Iterator[Step]]] = {
    "full": frameworks.full_abi,
    "stable": frameworks.stable_abi,
    "gfx": rocm.hipified,
}


def main() -> None:
    """Print the steps as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=KERNELS, action="append", help="only this one; may be given again")
    parser.add_argument("--archs", type=int, default=2, help="also so many archs, up to 8")
    parser.add_argument("--matrix", action="store_true", help="also every torch, for the CPU and for CUDA 13.0")
    parser.add_argument("--from-nothing", action="store_true", help="download the toolchains as well")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    options = Options(asked.archs, asked.matrix, asked.from_nothing)
    found = []
    for name in asked.kernel or KERNELS:
        with TemporaryDirectory() as temporary:
            for step in KERNELS[name](Path(temporary), options):
                print(f"{step.kernel}: {step.name}: {step.cpu:.1f} CPU s", file=sys.stderr)
                found.append(step)
    print(json.dumps([asdict(step) for step in found], indent=2) if asked.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
