"""What the tests of whole builds share: the program, and a kernel that was built once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernelworks.settings import cache_root
from kernelworks_build.errors import SandboxError
from kernelworks_build.sandbox.bwrap import Bwrap

PROGRAM = Path(sys.executable).with_name("kernel-build")
REPO_ID = "demo/silu-and-mul"


@dataclass(frozen=True)
class Done:
    """What a run of `kernel-build` gave."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)


def run(*arguments: str | Path, env: Mapping[str, str] | None = None, **options: Any) -> Done:
    """Run the program as a user does."""
    done = subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def kernel_build() -> Callable[..., Done]:
    """Runs `kernel-build ARGUMENTS...`; `env` is added to the environment."""
    return run


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Skips where no sandbox can be made, with the reason."""
    try:
        Bwrap().check()
    except SandboxError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def project(bubblewrap: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001  # it must work first
    """A kernel from the template whose CPU variant is built; read it, copy it, leave it as it is."""
    folder = tmp_path_factory.mktemp("project") / "silu-and-mul"
    assert run("init", REPO_ID, "--dir", folder).code == 0
    done = run("build", folder, "--variant", "*-cpu-*")
    assert done.code == 0, done.stderr
    return folder


@pytest.fixture
def fresh_cache(tmp_path: Path) -> Mapping[str, str]:
    """Environment with a cache of its own that shares toolchains and downloads but no results."""
    folder = tmp_path / "cache"
    folder.mkdir()
    for name in ("artifacts", "trees"):
        (cache_root() / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(cache_root() / name)
    return {"KERNELWORKS_CACHE": str(folder)}
