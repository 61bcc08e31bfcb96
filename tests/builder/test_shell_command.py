"""The sandbox for a person, and what an editor is told of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

Program = Callable[..., Any]


def test_a_command_finds_what_the_compile_finds_and_its_exit_code_is_passed_on(
    project: Path, kernel_build: Program
) -> None:
    script = "pwd; id -u; ls /src; cat compile.sh; head -1 /spec/compile.json; exit 7"
    done = kernel_build("shell", project, "--variant", "*-cpu-*", "--", "/bin/sh", "-c", script)
    assert done.code == 7
    assert done.stdout.startswith("/build\n1000\nbuild.toml\ncommon\ncpu\ncuda\ntorch-ext\n/bin/sh -c ")
    assert '"units"' in done.stdout


def test_nothing_of_this_machine_is_in_it(project: Path, kernel_build: Program) -> None:
    script = "env | sort; ls /; touch /src/x || touch /usr/x || echo read-only"
    done = kernel_build("shell", project, "--variant", "*-cpu-*", "--", "/bin/sh", "-c", script, env={"SECRET": "x"})
    assert "SECRET" not in done.stdout
    assert done.stdout.endswith("read-only\n")
    assert "home" not in done.stdout.split()


def test_an_editor_gets_commands_whose_every_path_exists_on_this_machine(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    twin = shutil.copytree(project, tmp_path / "a kernel", ignore=shutil.ignore_patterns("dist"))
    done = kernel_build("shell", twin, "--variant", "*-cpu-*", "--compile-commands", "--json")
    assert done.code == 0, done.stderr
    assert done.document["units"] == 2
    for entry in json.loads((twin / "compile_commands.json").read_text()):
        assert Path(entry["file"]).is_file()
        assert entry["file"].startswith(str(twin))
        paths = [
            word.removeprefix("-I").removeprefix("--sysroot=")
            for word in entry["arguments"]
            if f"{tmp_path.root}" in word
        ]
        assert paths
        assert [path for path in paths if path.startswith("/") and not Path(path).exists()] == []


def test_a_parser_that_reads_only_that_finds_every_header(project: Path, kernel_build: Program, tmp_path: Path) -> None:
    compiler = shutil.which("clang++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("this machine has neither clang++ nor g++ to read the sources with")
    twin = shutil.copytree(project, tmp_path / "twin", ignore=shutil.ignore_patterns("dist"))
    assert kernel_build("shell", twin, "--variant", "*-cpu-*", "--compile-commands").code == 0
    for entry in json.loads((twin / "compile_commands.json").read_text()):
        command = [compiler, "-fsyntax-only", *entry["arguments"][1:]]
        done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
