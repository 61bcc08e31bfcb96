"""The demonstration: a kernel from the template, built, audited, published, and loaded in a fresh process."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(".demo")
KERNEL = ROOT / "silu-and-mul"
REGISTRY = ROOT / "registry"
REPO_ID = "demo/silu-and-mul"
VARIANTS = ("--variant", "*-cpu-*", "--variant", "*-cu130-*")
"""One toolkit will do."""


def run(*command: str, capture: bool = False) -> str:
    """Run one step, say which and how long it took, and end the demonstration where it fails."""
    sys.stderr.write(f"\n$ {shlex.join(command)}\n")
    start = time.monotonic()
    done = subprocess.run(
        [str(Path(sys.executable).with_name(command[0])), *command[1:]],
        env=os.environ | {"KERNELWORKS_REGISTRY": str(REGISTRY.absolute())},
        stdout=subprocess.PIPE if capture else None,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.stderr.write(done.stdout or "")
        sys.exit(done.returncode)
    sys.stderr.write(f"  {time.monotonic() - start:.1f} s\n")
    return done.stdout or ""


def main() -> None:
    """Run all steps and print the table and the line of Python to try next."""
    ROOT.mkdir(exist_ok=True)
    if not KERNEL.exists():
        run("kernel-build", "init", REPO_ID, "--dir", str(KERNEL))
    run("kernel-build", "check", str(KERNEL))
    run("kernel-build", "build", str(KERNEL), *VARIANTS, capture=True)
    wheels = sorted(str(path) for path in KERNEL.glob("dist/wheels/*.whl"))
    run("kernel-build", "audit", *wheels)
    run("kernel-build", "publish", str(KERNEL), "--to", REPO_ID)
    run("python", "scripts/demo_load.py", REPO_ID)
    sys.stderr.write("\n")
    # built already, so this only prints the table
    subprocess.run([str(Path(sys.executable).with_name("kernel-build")), "build", str(KERNEL), *VARIANTS], check=True)
    line = f"from kernelworks import get_kernel; print(get_kernel({json.dumps(REPO_ID)}).silu_and_mul)"
    print(f"\ntry next:\n  KERNELWORKS_REGISTRY={REGISTRY} .venv/bin/python -c {shlex.quote(line)}")


if __name__ == "__main__":
    main()
