"""`kernel-build test`: the kernel's own tests against what was built."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import typer

from kernelworks.errors import HostError, UsageError
from kernelworks_build.cli.console import ProjectArgument, note
from kernelworks_build.errors import PublishError
from kernelworks_build.manifest import read_manifest
from kernelworks_build.revision import read_revision


def command(project: ProjectArgument = Path()) -> None:
    """Run the tests in PROJECT/tests; `get_kernel` gives them the variant in PROJECT/dist that fits this process."""
    project = project.absolute()
    manifest, dist = read_manifest(project), project / "dist"
    repo_id = manifest.general.hub.repo_id
    if repo_id is None:
        raise UsageError("build.toml names no repository to load by", hint="set `repo-id` in `[general.hub]`")
    if read_revision(dist) is None:
        raise PublishError(f"`{dist}` holds nothing that was built", hint="run `kernel-build build` first", path=dist)
    if importlib.util.find_spec("pytest") is None:
        raise HostError("the kernel's tests need pytest", hint=f"run `{sys.executable} -m pip install pytest`")
    local = os.pathsep.join(filter(None, [f"{repo_id}={dist}", os.environ.get("LOCAL_KERNELS")]))
    note(f"testing {repo_id} as built in {dist}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(project / "tests")],
        cwd=project,
        env=os.environ | {"LOCAL_KERNELS": local},
        check=False,
    )
    raise typer.Exit(done.returncode)
