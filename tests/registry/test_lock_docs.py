"""The examples of docs/locking.md, run as a reader runs them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from kernelworks.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "locking.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_commands_lock_fetch_and_verify_and_the_program_loads(
    registry: Any, pack: Any, processes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version in (("activation", 1), ("attention", 2)):
        registry.publish(f"my-org/{name}", version, pack(id=f"_{name}_1"))
    sampling = registry.publish("my-org/sampling", 1, pack(id="_sampling_1"))
    (registry.root / "my-org" / "sampling" / "refs" / "main").write_text(f"{sampling.commit}\n")
    (toml,) = blocks("toml")
    project = tmp_path / "project"
    (project / "src" / "my_library").mkdir(parents=True)
    (project / "pyproject.toml").write_text(toml.replace("https://kernels.example.org", str(registry.root)))
    monkeypatch.chdir(project)
    commands = [line.removeprefix("$ ").partition("#")[0] for line in blocks("console")[0].splitlines()]
    assert [main(shlex.split(command)[1:]) for command in commands] == [0] * 6
    loading, shim = blocks("python")
    assert processes.start(f"{loading}\nprint(activation.twice(2))").communicate() == ("4\n", "")
    program = f"{shim}\nimport kernels; print(kernels.get_kernel('my-org/activation').twice(2))"
    assert processes.start(program).communicate() == ("4\n", "")


def test_the_link_beside_the_code_leads_to_the_lock_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "src" / "my_library").mkdir(parents=True)
    (tmp_path / "kernelworks.lock").write_text("{}")
    _, target, place = shlex.split(blocks("console")[1].removeprefix("$ ln"))
    (tmp_path / place).symlink_to(target)
    assert (tmp_path / place).read_text() == "{}"
