"""The README's commands and its Python, run as a reader runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def block(language: str, mark: str) -> str:
    """The block of that language that holds `mark`."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    (found,) = (text for text in blocks if mark in text)
    return found


@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.cuda
@pytest.mark.slow
def test_an_author_and_a_user_can_follow_the_readme(tmp_path: Path) -> None:
    commands = [
        line.removeprefix("$ ").partition("#")[0].strip()
        for line in block("console", "kernel-build init").splitlines()
        if "pip install" not in line
    ]
    registry = tmp_path / "kernels"
    script = "\n".join(["set -eu", *commands]).replace("/srv/kernels", str(registry))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code = block("python", "get_kernel").replace("kernel.silu_and_mul(x)", "kernel.silu_and_mul(torch.randn(2, 8))")
    user = subprocess.run(
        [sys.executable, "-c", f"import torch\n{code}\nprint(y.shape)"],
        env={**os.environ, "KERNELWORKS_REGISTRY": str(registry)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert user.stdout == "torch.Size([2, 4])\n", user.stderr


def test_every_command_is_in_the_readme_or_in_the_changelog() -> None:
    from kernelworks_build.cli import COMMANDS  # noqa: PLC0415  # the program itself

    text = README.read_text() + (README.parent / "CHANGELOG.md").read_text()
    assert [name for name in COMMANDS if name not in text] == []
