"""A kernel's workflow: the matrix that `plan` prints, and the commands of the documentation, run as a runner does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.index import Index
from kernelworks.transport import connect

DOCS = Path(__file__).parents[2] / "docs" / "ci.md"


def test_a_github_matrix_is_one_line_with_a_job_for_each_variant(
    kernel_build: Callable[..., Any], tmp_path: Path
) -> None:
    kernel_build("init", "my-org/toy", "--dir", tmp_path / "toy")
    printed = kernel_build(
        "plan", tmp_path / "toy", "--variant", "*-cpu-*", "--variant", "*-cu130-*", "--format", "github"
    )
    assert printed.stdout.count("\n") == 1
    cpu, cuda = json.loads(printed.stdout)["include"]
    assert cpu == {
        "variant": "torch-stable-abi211-cpu-x86_64-linux",
        "backend": "cpu",
        "toolkit": "",
        "archs": "",
        "unit-memory": 700_000_000,
    }
    assert (cuda["toolkit"], cuda["archs"]) == ("13.0", "8.0,9.0,12.0")


@pytest.mark.sandbox
def test_the_workflow_of_the_documentation_publishes_every_variant(
    kernel_build: Callable[..., Any], tmp_path: Path
) -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    jobs = yaml.safe_load(text)["jobs"]
    project, published = tmp_path / "toy", tmp_path / "published"
    kernel_build("init", "my-org/my-kernel", "--template", "triton", "--dir", project)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "KERNELWORKS_CACHE": str(tmp_path / "cache"),
        "KERNELWORKS_REGISTRY": str(published),
    }

    def run(job: str, folder: Path, **matrix: str) -> None:
        steps = [step["run"] for step in jobs[job]["steps"] if "kernel-build" in step.get("run", "")]
        script = re.sub(r"\$\{\{ matrix\.(\S+) \}\}", lambda found: matrix[found[1]], "\n".join(steps))
        subprocess.run(["bash", "-euc", script], cwd=folder, env=env, check=True)

    run("plan", project)
    output = (tmp_path / "output").read_text()
    assert jobs["plan"]["outputs"] == {"matrix": "${{ steps.plan.outputs.matrix }}"}
    include = json.loads(output.removeprefix("matrix="))["include"]
    dists = tmp_path / "dists"
    dists.mkdir()
    for entry in include:
        run("build", project, **{key: str(value) for key, value in entry.items()})
        (project / "dist").rename(dists / entry["variant"])
    run("publish", tmp_path)
    said = connect(published).read_index("my-org/my-kernel", "v1")
    index = Index.from_bytes(said.index or b"", "the published index")
    assert [item.name for item in index.variants] == [entry["variant"] for entry in include]
