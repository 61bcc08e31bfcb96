"""What a build costs, phase by phase, in CPU seconds; and what a second one costs.

    python benchmarks/builder.py [--json]

Builds the `stable_abi` template for CPU and for CUDA 13.0 with one and with three archs. Toolchains come from the
cache, results do not. CPU seconds are user and system time of the process and of all that it waited for; the ratio of
the last column is against the first row.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelworks.settings import cache_root

PROGRAM = str(Path(sys.executable).with_name("kernel-build"))


@dataclass(frozen=True)
class Phase:
    """One command: its CPU and wall seconds, and the CPU seconds of the compile alone where there was one."""

    name: str
    cpu: float
    wall: float
    compile_cpu: float | None = None


def measure(name: str, env: dict[str, str], *arguments: str) -> Phase:
    """Run `kernel-build ARGUMENTS` and account for it."""
    before, start = _children(), time.monotonic()
    done = subprocess.run([PROGRAM, *arguments, "--json"], env=env, check=True, capture_output=True, text=True)
    wall, cpu = time.monotonic() - start, _children() - before
    variants = json.loads(done.stdout).get("variants", []) if arguments[0] == "build" else []
    fresh = [variant["cpu-seconds"] for variant in variants if not variant["cached"]]
    return Phase(name, cpu, wall, sum(fresh) if fresh else None)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def phases() -> list[Phase]:
    """Every phase in a fresh cache of results."""
    with TemporaryDirectory() as temporary:
        root = Path(temporary)
        for name in ("artifacts", "trees"):
            (root / name).symlink_to(cache_root() / name)
        env = os.environ | {"KERNELWORKS_CACHE": str(root)}
        kernel = str(root / "silu-and-mul")
        cpu, cuda = ("--variant", "*-cpu-*"), ("--variant", "*-cu130-*")
        return [
            measure("init", env, "init", "demo/silu-and-mul", "--dir", kernel),
            measure("check", env, "check", kernel),
            measure("plan", env, "plan", kernel),
            measure("build cpu", env, "build", kernel, *cpu),
            measure("build cuda, 1 arch", env, "build", kernel, *cuda, "--arch", "9.0"),
            measure("build cuda, 3 archs", env, "build", kernel, *cuda),
            measure("build all again", env, "build", kernel),
            measure(
                "publish", env, "publish", kernel, "--to", "demo/silu-and-mul", "--registry", str(root / "registry")
            ),
        ]


def main() -> None:
    """Print the phases as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    found = phases()
    if as_json:
        print(json.dumps([asdict(phase) for phase in found], indent=2))
        return
    print(f"{'phase':<22}{'CPU s':>8}{'wall s':>8}{'compile CPU s':>15}{'ratio':>8}")
    for phase in found:
        compiled = f"{phase.compile_cpu:.1f}" if phase.compile_cpu is not None else "-"
        print(f"{phase.name:<22}{phase.cpu:>8.2f}{phase.wall:>8.2f}{compiled:>15}{phase.cpu / found[0].cpu:>8.1f}")


if __name__ == "__main__":
    main()
