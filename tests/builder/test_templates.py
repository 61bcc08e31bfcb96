"""Every template is a kernel as an author should write one: without a fault, tested, and the same bytes anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernelworks.model.digest import hash_file
from kernelworks_build.template import templates

Program = Callable[..., Any]


class Case(NamedTuple):
    """A template, and the variants of it that are built."""

    template: str
    variants: str


HERE = [
    Case("cpu", "torch-stable-abi211-cpu-*"),
    Case("multi_backend", "torch-stable-abi211-cpu-*"),
    Case("stable_abi", "torch-stable-abi211-cpu-*"),
    Case("triton", "torch-*"),
    pytest.param(Case("full_abi", "torch213-cxx11-cpu-*"), marks=pytest.mark.slow),
    pytest.param(Case("pybind11", "torch213-cxx11-cpu-*-cp311"), marks=pytest.mark.slow),
]
"""What a machine without a GPU can load."""
FOR_A_GPU = [
    pytest.param(Case("cuda", "*-cu130-*"), marks=pytest.mark.cuda),
    pytest.param(Case("multi_backend", "*-cu130-*"), marks=[pytest.mark.cuda, pytest.mark.slow]),
    pytest.param(Case("stable_abi", "*-cu130-*"), marks=[pytest.mark.cuda, pytest.mark.slow]),
    pytest.param(Case("full_abi", "torch213-cxx11-cu130-*"), marks=[pytest.mark.cuda, pytest.mark.slow]),
]


def create(kernel_build: Program, template: str, folder: Path) -> Path:
    done = kernel_build("init", "demo/toy-kernel", "--template", template, "--dir", folder)
    assert done.code == 0, done.stderr
    return folder


def build(kernel_build: Program, project: Path, case: Case, *arguments: str, **options: Any) -> list[Any]:
    """The variants of `case` as they were built, each for one GPU at most."""
    archs = ("--arch", "9.0") if "cu130" in case.variants else ()
    done = kernel_build("build", project, "--variant", case.variants, *archs, *arguments, "--json", **options)
    assert done.code == 0, done.stderr
    return list(done.document["variants"])


def test_no_template_is_left_out() -> None:
    cases = [getattr(case, "values", (case,))[0] for case in (*HERE, *FOR_A_GPU)]
    assert {case.template for case in cases} == set(templates())


@pytest.mark.parametrize("template", templates())
def test_a_template_is_checked_without_a_word_and_planned(kernel_build: Program, tmp_path: Path, template: str) -> None:
    project = create(kernel_build, template, tmp_path / "toy")
    checked = kernel_build("check", project, "--json")
    assert (checked.code, checked.document["diagnostics"]) == (0, [])
    planned = kernel_build("plan", project, "--json")
    assert planned.code == 0, planned.stderr
    assert planned.document["variants"]


@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.parametrize("case", HERE, ids=lambda case: case.template)
def test_the_tests_of_a_template_pass_against_what_was_built(kernel_build: Program, tmp_path: Path, case: Case) -> None:
    project = create(kernel_build, case.template, tmp_path / "toy")
    variants = build(kernel_build, project, case)
    assert all(variant["audit"]["ok"] for variant in variants)
    done = kernel_build("test", project, "--json")
    if case.template in {"full_abi", "pybind11"} and done.document.get("variant") is None:
        pytest.skip("it is built for CPython 3.11 and torch 2.13, and something else runs here")
    assert done.code == 0, done.stderr
    assert done.document["tests"] > done.document["skipped"]


@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.parametrize("case", [*HERE, *FOR_A_GPU], ids=lambda case: f"{case.template}-{case.variants}")
def test_a_template_is_the_same_bytes_whoever_builds_it_and_wherever(
    kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path, case: Case
) -> None:
    project = create(kernel_build, case.template, tmp_path / "toy")
    twin = Path(shutil.copytree(project, tmp_path / "another folder" / "kernel é"))
    variants = build(kernel_build, project, case)
    env = {**fresh_cache, "TZ": "Asia/Tokyo", "HOME": str(tmp_path), "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1"}
    others = build(kernel_build, twin, case, "--jobs", "1", env=env, umask=0o077)
    assert {variant["cached"] for variant in others} == {case.template == "triton"}  # which has nothing to compile
    assert [variant["wheel"] for variant in others] == [variant["wheel"] for variant in variants]
    assert hash_file(twin / "dist" / "kernel.json") == hash_file(project / "dist" / "kernel.json")
