"""What is said of sources that lie beside listed ones and are not listed, and of include folders that stay empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelworks_build.manifest import check_manifest

MANIFEST = """\
[general]
name = "relu"
version = 1
edition = 5
license = "mit"
backends = ["cpu", "cuda"]

[torch]
src = ["binding.cpp"]

[kernel.relu]
backend = "cpu"
depends = ["torch"]
src = ["csrc/relu.cpp"]

[kernel.relu_cuda]
backend = "cuda"
depends = ["torch"]
src = ["csrc/relu.cu", "csrc/vec.cuh"]
include = ["csrc"]
"""


@pytest.fixture(name="project")
def complete_project(tmp_path: Path) -> Path:
    """A kernel whose tables list all of its sources."""
    files = {
        "build.toml": MANIFEST,
        "torch-ext/relu/__init__.py": "",
        "binding.cpp": "",
        "csrc/relu.cpp": "",
        "csrc/relu.cu": "#include <vec.cuh>\n",
        "csrc/vec.cuh": "",
    }
    for name, text in files.items():
        write(tmp_path / name, text)
    return tmp_path


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def said(project: Path) -> list[str]:
    return [str(one).removeprefix(f"{project}/") for one in check_manifest(project)]


def test_sources_that_nobody_lists_are_told_with_the_tables_that_list_their_neighbours(project: Path) -> None:
    for name in "abcde":
        write(project / f"csrc/{name}.cu")
    write(project / "more.cc")
    assert said(project) == [
        (
            "build.toml:9:1: warning: no `src` lists `more.cc`, so no build compiles it; "
            "list it in `[torch]`, or remove what is not meant"
        ),
        (
            "build.toml:14:1: warning: no `src` lists `csrc/a.cu`, `csrc/b.cu`, `csrc/c.cu` and 2 more, so no build "
            "compiles them; list them in `[kernel.relu]` or `[kernel.relu_cuda]`, or remove what is not meant"
        ),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("csrc/notes.md", ""),
        ("csrc/shader.metal", ""),
        ("csrc/bench.cu", "#include <vec.cuh>\nint main(int argc, char **argv) {}\n"),
        ("csrc/tests/test_relu.cu", ""),
        ("third_party/cutlass/gemm.cu", ""),
        ("benchmarks/bench.cpp", ""),
    ],
)
def test_what_is_no_part_of_the_kernel_is_not_commented_on(project: Path, name: str, text: str) -> None:
    write(project / name, text)
    assert said(project) == []


def test_a_source_that_another_one_includes_is_told_as_such_and_once(project: Path) -> None:
    write(project / "csrc/relu.cu", '#include <vec.cuh>\n#include "body.cu"\n')
    write(project / "csrc/body.cu")
    (only,) = said(project)
    assert "`csrc/relu.cu` includes `csrc/body.cu`, which no `src` lists" in only


def test_an_include_folder_without_a_listed_file_is_empty_in_a_build(project: Path) -> None:
    write(project / "build.toml", MANIFEST.replace('["csrc"]', '["csrc", "csrc/more"]'))
    write(project / "csrc/more/readme.h")
    assert said(project) == [
        (
            "build.toml:20:20: warning: no `src` lists a file below the include folder `csrc/more`, so it is empty in "
            "a build; list its headers, or remove it"
        )
    ]
