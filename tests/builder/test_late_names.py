"""Which units learn the name of a build when they are linked, and that no byte tells it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernelworks_build.cli.project import open_plan
from kernelworks_build.job import Job, Project, Workplace
from kernelworks_build.make import make
from kernelworks_build.matrix import Matrix
from kernelworks_build.progress import SILENT
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.units.directives import without_comments
from kernelworks_build.units.naming import named_when_linked

FULL = Path(__file__).parent / "fixtures" / "scale"
MODULE = """
#include <pybind11/pybind11.h>

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("twice", [](int x) { return 2 * x; });
}
"""


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("REGISTER_EXTENSION(TORCH_EXTENSION_NAME)", id="a module"),
        pytest.param("TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {}", id="ops"),
        pytest.param("STABLE_TORCH_LIBRARY_IMPL( TORCH_EXTENSION_NAME, CPU, ops) {}", id="ops of the stable ABI"),
        pytest.param("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", id="a pybind11 module"),
        pytest.param("// TORCH_EXTENSION_NAME\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)", id="and a comment"),
    ],
)
def test_a_unit_whose_every_mention_is_kept_whole_gets_its_name_late(code: str) -> None:
    assert named_when_linked([without_comments(code.encode())])


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("int f();", id="no mention"),
        pytest.param("std::string name = STRING(TORCH_EXTENSION_NAME);", id="a text that may be split"),
        pytest.param("TORCH_LIBRARY(TORCH_EXTENSION_NAME, ops) {}", id="a form of torch that splits it"),
        pytest.param("REGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n#ifdef TORCH_EXTENSION_NAME\n#endif", id="a condition"),
        pytest.param(
            "#define REGISTER_EXTENSION(name) f(#name)\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)",
            id="its own form",
        ),
    ],
)
def test_any_other_unit_is_compiled_with_its_name(code: str) -> None:
    assert not named_when_linked([without_comments(code.encode())])


def full(folder: Path, _: Callable[..., Any]) -> Path:
    return Path(shutil.copytree(FULL, folder))


def stable(folder: Path, kernel_build: Callable[..., Any]) -> Path:
    assert kernel_build("init", "demo/rows", "--template", "cpu", "--dir", folder).code == 0
    return folder


def pybind11(folder: Path, kernel_build: Callable[..., Any]) -> Path:
    assert kernel_build("init", "demo/ngrams", "--template", "pybind11", "--dir", folder).code == 0
    (folder / "torch-ext" / "module.cpp").write_text(MODULE)
    return folder


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.parametrize(
    ("kernel", "variant"),
    [(full, "torch213-*-cpu-*"), (stable, "*-cpu-*"), (pybind11, "torch213-*cp311*")],
    ids=["full", "stable", "pybind11"],
)
def test_the_library_is_that_of_a_build_that_compiles_with_the_name(
    kernel: Callable[[Path, Callable[..., Any]], Path],
    variant: str,
    bubblewrap: Bwrap,
    kernel_build: Callable[..., Any],
    fresh_cache: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = kernel(tmp_path / "kernel", kernel_build)
    manifest, plan, locks = open_plan(folder, [variant], None)
    place = Workplace(Path(fresh_cache["KERNELWORKS_CACHE"]), locks, bubblewrap, SILENT, tmp_path / "logs")
    project = Project.read(folder, manifest, place.store)
    (planned,) = plan.variants
    late = Job.of(project, planned, Matrix.load())
    monkeypatch.setattr("kernelworks_build.job.with_late_names", lambda spec, _: spec)
    early = Job.of(project, planned, Matrix.load())
    assert late.spec
    assert early.spec
    assert ("prepare" in late.spec.document["link"], "prepare" in early.spec.document["link"]) == (True, False)

    for name, job in (("late", late), ("early", early)):
        (tmp_path / name).mkdir()
        assert make(job, place, tmp_path / name), "it was not compiled"

    library = f"build/{planned.name}/{late.spec.output}"
    assert late.claims.id.encode() in (tmp_path / "late" / library).read_bytes()
    assert (tmp_path / "late" / library).read_bytes() == (tmp_path / "early" / library).read_bytes()
