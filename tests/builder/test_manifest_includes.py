"""What is said of headers that are included and not listed, or listed and not included."""

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
backends = ["cpu"]

[torch]
src = ["binding.cpp", "binding.h"]

[kernel.relu]
backend = "cpu"
depends = ["torch"]
include = ["csrc/include"]
src = [
  "csrc/relu.cpp",
  "csrc/include/relu/vec.h",
]
"""


@pytest.fixture(name="project")
def complete_project(tmp_path: Path) -> Path:
    """A kernel whose lists say what its sources include."""
    files = {
        "build.toml": MANIFEST,
        "torch-ext/relu/__init__.py": "",
        "binding.cpp": '#include <torch/all.h>\n#include "binding.h"\n',
        "binding.h": "#pragma once\n",
        "csrc/relu.cpp": '  #  include <relu/vec.h>\n#include "../binding.h"\n// #include "gone.h"\n',
        "csrc/include/relu/vec.h": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def said(project: Path) -> list[str]:
    return [str(one).removeprefix(f"{project}/") for one in check_manifest(project)]


def test_lists_that_fit_the_sources_are_not_commented_on(project: Path) -> None:
    assert said(project) == []


def test_a_header_that_is_included_and_not_listed_is_told_where_its_source_is_listed(project: Path) -> None:
    (project / "csrc/include/relu/more.h").touch()
    (project / "csrc/include/relu/vec.h").write_text('#include "more.h"\n')
    assert said(project) == [
        (
            "build.toml:17:3: warning: `csrc/include/relu/vec.h` includes `csrc/include/relu/more.h`, which no `src` "
            "lists, so no build sees it; list `csrc/include/relu/more.h`, too"
        )
    ]


def test_a_header_that_nothing_includes_is_told_unless_a_macro_may_name_it(project: Path) -> None:
    (project / "csrc/relu.cpp").write_text('#include "../binding.h"\n')
    assert said(project) == [
        ("build.toml:17:3: warning: no source includes `csrc/include/relu/vec.h`; remove it if nothing else reads it")
    ]
    (project / "csrc/relu.cpp").write_text("#include VEC_HEADER\n")
    assert said(project) == []


def test_a_header_outside_the_project_is_not_looked_for(project: Path) -> None:
    (project.parent / "outside.h").touch()
    with (project / "csrc/relu.cpp").open("a") as file:
        file.write('#include "../../outside.h"\n#include "/etc/hosts"\n')
    assert said(project) == []
    (project.parent / "outside.h").unlink()
