"""The locked packages themselves: fetched, unpacked to the digests of their locks, and put to work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kernelworks_build.action import Action, ActionResult, Limits, Mount, Tree
from kernelworks_build.sandbox.bwrap import Bwrap

pytestmark = [pytest.mark.network, pytest.mark.sandbox]

LIBC = "/usr/share/kernelworks/libc6-dev/include"
PLACES = {"host": "/usr", "python": "/opt/python", "tools": "/opt/tools"}


@pytest.fixture
def executor(bubblewrap: Bwrap) -> Bwrap:
    return bubblewrap


@pytest.fixture
def trees(toolchain: Callable[..., Mapping[str, Tree]]) -> Mapping[str, Tree]:
    return toolchain(*PLACES)


def run(script: str, folder: Path, executor: Bwrap, trees: Mapping[str, Tree]) -> tuple[ActionResult, str]:
    mounts = tuple(Mount(place, trees[name]) for name, place in PLACES.items())
    environment = (("LC_ALL", "C"), ("PATH", "/usr/bin"))
    action = Action(("/usr/bin/sh", "-euc", script), environment, mounts, (), Limits(1 << 30, 60))
    (folder / "build").mkdir()
    result = executor.run(action, folder / "build", folder / "log")
    return result, (folder / "log").read_text()


def test_the_locked_compiler_and_headers_compile_a_python_module(
    executor: Bwrap, trees: Mapping[str, Tree], tmp_path: Path
) -> None:
    script = f"""
        printf '#include <Python.h>\\n#include <vector>\\nstd::vector<PyObject*> all;' >a.cpp
        libc='-isystem {LIBC}/x86_64-linux-gnu -idirafter {LIBC}'
        g++ -std=c++20 $libc -I/opt/python/include/python3.11 -c a.cpp
    """

    result, log = run(script, tmp_path, executor, trees)

    assert result.exit_code == 0, log
    assert (tmp_path / "build/a.o").read_bytes()[:4] == b"\x7fELF"


def test_the_locked_compiler_finds_no_c_library_by_itself(
    executor: Bwrap, trees: Mapping[str, Tree], tmp_path: Path
) -> None:
    result, log = run("echo '#include <stdio.h>' | gcc -x c -c -", tmp_path, executor, trees)

    assert result.exit_code != 0
    assert "stdio.h: No such file" in log


def test_the_locked_cmake_drives_the_locked_ninja(executor: Bwrap, trees: Mapping[str, Tree], tmp_path: Path) -> None:
    script = """
        printf 'cmake_minimum_required(VERSION 3.28)
          project(p NONE)
          add_custom_target(t ALL COMMAND cmake -E touch made)' >CMakeLists.txt
        PATH=/opt/tools/bin:/usr/bin
        cmake -G Ninja -B out .
        ninja -C out
    """

    result, log = run(script, tmp_path, executor, trees)

    assert result.exit_code == 0, log
    assert (tmp_path / "build/out/made").is_file()
