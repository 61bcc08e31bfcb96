"""Every template is a kernel as an author should write one: without a fault, tested, and the same bytes anywhere."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kernelworks.model.digest import hash_file
from kernelworks_build.template import templates

Program = Callable[..., Any]
ANOTHER_USER = ("unshare", "--user", "--map-user=4321", "--map-group=4321")
"""Runs a program as a user that there is not, who owns what ours does."""


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
"""Whose tests a machine without a GPU can run, at least some of them."""
FOR_A_GPU = [
    pytest.param(Case("cuda", "*-cu130-*"), marks=pytest.mark.cuda),
    pytest.param(Case("multi_backend", "*-rocm72-*"), marks=[pytest.mark.rocm, pytest.mark.slow]),
    pytest.param(Case("rocm", "*-rocm72-*"), marks=[pytest.mark.rocm, pytest.mark.slow]),
    pytest.param(Case("multi_backend", "*-cu130-*"), marks=[pytest.mark.cuda, pytest.mark.slow]),
    pytest.param(Case("stable_abi", "*-cu130-*"), marks=[pytest.mark.cuda, pytest.mark.slow]),
    pytest.param(Case("full_abi", "torch213-cxx11-cu130-*"), marks=[pytest.mark.cuda, pytest.mark.slow]),
]
ONE_GPU = {"cu130": "9.0", "rocm72": "gfx942"}
"""Toolkit -> the one GPU that a test builds for with it."""


def create(kernel_build: Program, template: str, folder: Path) -> Path:
    done = kernel_build("init", "demo/toy-kernel", "--template", template, "--dir", folder)
    assert done.code == 0, done.stderr
    return folder


def build(kernel_build: Program, project: Path, case: Case, *arguments: str, **options: Any) -> list[Any]:
    """The variants of `case` as they were built, each for one GPU at most."""
    archs = [word for toolkit, arch in ONE_GPU.items() if toolkit in case.variants for word in ("--arch", arch)]
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
    assert not any(variant["cached"] for variant in others)
    assert [variant["wheel"] for variant in others] == [variant["wheel"] for variant in variants]
    assert hash_file(twin / "dist" / "kernel.json") == hash_file(project / "dist" / "kernel.json")


@pytest.mark.sandbox
@pytest.mark.network
def test_a_template_is_the_same_bytes_for_another_user(
    kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    tried = subprocess.run([*ANOTHER_USER, "id", "--user"], capture_output=True, text=True, check=False)
    if tried.stdout != "4321\n":
        pytest.skip(f"no other user can be had by `unshare`: {tried.stderr.strip()}")
    case = Case("cpu", "torch-stable-abi211-cpu-*")
    project = create(kernel_build, case.template, tmp_path / "toy")
    twin = Path(shutil.copytree(project, tmp_path / "twin"))
    ours = build(kernel_build, project, case)
    theirs = build(kernel_build, twin, case, env=fresh_cache, by=ANOTHER_USER)
    assert not theirs[0]["cached"]
    assert [variant["wheel"] for variant in theirs] == [variant["wheel"] for variant in ours]
