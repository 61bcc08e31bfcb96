"""What reading and planning costs, in seconds for all manifests of a folder: the goal is below 5.

python benchmarks/manifests.py FOLDER
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from kernelworks_build.manifest import Manifest, parse_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan
from kernelworks_build.planned import BuildPlan
from kernelworks_build.toolchain.lock import LockSet


def main() -> None:
    """Print how long each step takes."""
    files = {path.name: path.read_bytes() for path in sorted(Path(sys.argv[1]).glob("*.toml"))}
    matrix, locks = Matrix.load(), set(LockSet.load(None).locks)

    def read() -> list[Manifest]:
        return [manifest for name, data in files.items() if (manifest := parse_manifest(data, name)[0])]

    manifests = read()

    def plan() -> list[BuildPlan]:
        return [make_plan(manifest, matrix, locks) for manifest in manifests]

    steps: tuple[tuple[str, Callable[[], list[Manifest] | list[BuildPlan]]], ...] = (("read", read), ("plan", plan))
    for name, step in steps:
        start = time.perf_counter()
        done = step()
        print(f"{name}: {len(done)} of {len(files)} in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
