"""Makes the environments of `environments.toml`, once per machine, and prints where their Python is.

$ python tests/environments.py hub-1.20
/.../.test-environments/hub-1.20-5f0c2e97ab31/bin/python

Tests take the fixture `environment`, benchmarks run this file. The folder is KERNELWORKS_TEST_ENVIRONMENTS, else
`.test-environments` of the checkout; an environment whose description has changed is another folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path
from typing import Any

from kernelworks_build.toml import read_toml

HERE = Path(__file__).parent
ROOT = Path(os.environ.get("KERNELWORKS_TEST_ENVIRONMENTS", HERE.parent / ".test-environments"))
ENVIRONMENTS: dict[str, dict[str, Any]] = read_toml(HERE / "environments.toml")
WEEK = 7 * 24 * 3600  # seconds


def environment(name: str) -> Path:
    """The Python of this environment, which is made where it is missing; processes that want the same one wait.

    Raises:
        CalledProcessError: pip could not install it; its `stderr` says why.
    """
    facts = ENVIRONMENTS[name]
    week = int(time.time() // WEEK) if facts.get("renewed") else None
    key = json.dumps([facts, sys.version, week], sort_keys=True)
    folder = ROOT / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    python, made = folder / "bin" / "python", folder / "made"
    ROOT.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, symlinks=True)
            _install(python, facts["requirements"])
            if facts.get("borrows"):
                _borrow(folder)
            made.touch()
    return python


def _install(python: Path, requirements: list[str]) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--only-binary=:all:"]
    subprocess.run([*pip, *requirements], check=True, capture_output=True, text=True)


def _borrow(folder: Path) -> None:
    """Let modules that the environment `folder` lacks come from this one: a `.pth` goes to the end of the path."""
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{environment(sys.argv[1])}\n")
    except subprocess.CalledProcessError as error:
        sys.exit(f"cannot make the environment `{sys.argv[1]}`: {error.stderr.strip()}")
