"""What the tests of all packages share: the same world wherever they run, and environments for stock programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.load_profile("ci")  # equal examples in every run; `--hypothesis-profile=default` looks for new ones


@pytest.fixture(scope="session", autouse=True)
def _anywhere() -> Iterator[None]:
    """What people and CI set for themselves changes no test: colours, widths, the umask, a proxy before loopback."""
    before = os.umask(0o022)
    with pytest.MonkeyPatch.context() as world:
        for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "PY_COLORS", "COLUMNS", "LINES", "TERMINAL_WIDTH"):
            world.delenv(name, raising=False)
        for name in ("NO_PROXY", "no_proxy"):
            world.setenv(name, ",".join(filter(None, (os.environ.get(name), "127.0.0.1", "localhost"))))
        yield
    os.umask(before)


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
