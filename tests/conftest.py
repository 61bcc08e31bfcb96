"""What the tests of all packages share: environments of their own for stock programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def environment() -> Callable[[str], Path]:
    """Gives the Python of an environment of `environments.toml` by its name; skips where it cannot be made."""

    @cache
    def made(name: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, str(Path(__file__).with_name("environments.py")), name]
        return subprocess.run(program, capture_output=True, text=True, check=False)

    def python(name: str) -> Path:
        if made(name).returncode != 0:
            pytest.skip(made(name).stderr.strip())
        return Path(made(name).stdout.strip())

    return python
