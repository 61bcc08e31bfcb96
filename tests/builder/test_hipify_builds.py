"""CUDA sources in a build for ROCm: planned, translated once, told of in the author's paths, rebuilt from a wheel."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.digest import hash_file
from kernelworks_build.manifest import parse_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan
from kernelworks_build.planned import PlannedVariant
from kernelworks_build.toolchain.lock import LockSet

Program = Callable[..., Any]

MANIFEST = """
[general]
name = "toy-kernel"
version = 1
edition = 5
license = "apache-2.0"
backends = ["rocm"]

[torch]
src = ["binding.cpp"]
stable-abi = "2.13"

[kernel.toy]
backend = "rocm"
depends = ["torch"]
src = ["toy.cu"]
"""
LOCKS = set(LockSet.load().locks)
TRANSLATES = "translate the sources"


def planned(text: str = MANIFEST, locks: set[str] = LOCKS) -> tuple[PlannedVariant, ...]:
    manifest, diagnostics = parse_manifest(text.encode(), "build.toml")
    assert manifest, diagnostics
    return make_plan(manifest, Matrix.load(), locks).variants


def test_cuda_sources_are_planned_to_be_translated_by_the_torch_that_they_are_compiled_against() -> None:
    (variant,) = planned()
    assert variant.trees["torch-rocm-2.13.0"] == "/opt/torch"
    assert variant.translation == {"host": "/usr", "cpython": "/opt/cpython", "torch-rocm-2.13.0": "/opt/torch"}
    assert {"cpython", "rocm-7.2", "torch-rocm-2.13.0"} < set(variant.locks)


def test_a_component_of_edition_1_that_is_to_be_hipified_is_translated() -> None:
    old = """
        [general]
        name = "toy"
        [torch]
        src = ["binding.cpp"]
        [kernel.toy]
        language = "cuda-hipify"
        rocm-archs = ["gfx942"]
        depends = ["torch"]
        src = ["toy.cu"]
    """
    translated = {variant.backend.kind: bool(variant.translation) for variant in planned(old)}
    assert translated == {"cuda": False, "rocm": True}


def test_a_kernel_in_hip_is_compiled_as_it_is() -> None:
    (variant,) = planned(MANIFEST.replace("toy.cu", "toy.hip"))
    assert variant.translation == {}
    assert "cpython" not in variant.locks


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        ("torch-rocm-2.13.0", "`torch-rocm-2.13.0` is not locked; `kernel-build lock --torch 2.13.0` pins it"),
        ("cpython", "`cpython` is not locked; `kernel-build lock --cpython` pins it"),
    ],
)
def test_what_is_not_locked_is_named_with_the_command_that_pins_it(lock: str, words: str) -> None:
    manifest, _ = parse_manifest(MANIFEST.encode(), "build.toml")
    assert manifest
    plan = make_plan(manifest, Matrix.load(), LOCKS - {lock})
    assert (plan.variants, [item.reason for item in plan.skipped]) == ((), [words])


@pytest.fixture
def project(kernel_build: Program, tmp_path: Path) -> Path:
    """One source for CPU, CUDA and ROCm."""
    done = kernel_build("init", "demo/toy-kernel", "--template", "multi_backend", "--dir", tmp_path / "toy kernel")
    assert done.code == 0, done.stderr
    return tmp_path / "toy kernel"


@pytest.mark.rocm
@pytest.mark.sandbox
@pytest.mark.network
def test_an_editor_reads_what_was_translated_and_the_authors_file_where_nothing_was(
    project: Path, kernel_build: Program
) -> None:
    done = kernel_build("shell", project, "--variant", "*-rocm*", "--arch", "gfx942", "--compile-commands")
    assert done.code == 0, done.stderr
    entries = json.loads((project / "compile_commands.json").read_text())
    files = {Path(entry["file"]).suffix: Path(entry["file"]) for entry in entries}
    (device,) = (entry["arguments"] for entry in entries if entry["file"].endswith(".cu"))
    assert files.keys() == {".cu", ".cpp"}
    assert files[".cpp"].is_relative_to(project)
    translated = files[".cu"].parents[1]
    assert "#include <hip/hip_runtime.h>" in (translated / "common" / "for_each.h").read_text()
    assert f"-I{translated}" in device
    assert not any(str(project) in word for word in device)


@pytest.mark.rocm
@pytest.mark.sandbox
@pytest.mark.network
def test_an_error_is_told_in_the_authors_file_and_line_and_what_was_translated_is_kept(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str]
) -> None:
    header = project / "common" / "for_each.h"
    line = next(at for at, text in enumerate(header.read_text().splitlines(), 1) if "__global__" in text)
    header.write_text(header.read_text().replace("__global__ void", "__global__ vood"))
    build = ("build", project, "--variant", "*-rocm*", "--arch", "gfx942")
    first = kernel_build(*build, env=fresh_cache)
    second = kernel_build(*build, env=fresh_cache)
    assert first.code == 24
    assert f"{header}:{line}:12: error: unknown type name 'vood'" in first.stderr
    assert "their CUDA names were translated into those of HIP" in first.stderr
    assert (TRANSLATES in first.stderr, TRANSLATES in second.stderr) == (True, False)


@pytest.mark.rocm
@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.slow
def test_a_wheel_lists_the_authors_files_and_is_built_again_from_them(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    done = kernel_build("build", project, "--variant", "*-rocm*", "--arch", "gfx942", "--json")
    assert done.code == 0, done.stderr
    (variant,) = done.document["variants"]
    wheel = project / "dist" / variant["wheel"]["path"]
    with zipfile.ZipFile(wheel) as archive:
        members = {name.rpartition("/")[2]: name for name in archive.namelist()}
        sources = {entry["path"]: entry["sha256"] for entry in json.loads(archive.read(members["source.json"]))}
        record = json.loads(archive.read(members["provenance.json"]))
    assert sources["cuda/rotate.cu"] == hash_file(project / "cuda" / "rotate.cu")[1]
    assert sources["common/for_each.h"] == hash_file(project / "common" / "for_each.h")[1]
    assert {"cpython.toml", "torch-rocm-2.11.0.toml", "rocm-7.2.toml"} < members.keys()
    translation, compiling = record["translation"]["inputs"], record["action"]["inputs"]
    assert translation["/src"] == record["source"]
    assert translation["/src"] != compiling["/src"]
    assert translation["/opt/torch"] == LockSet.load()["torch-rocm-2.11.0"].digest
    again = kernel_build("rebuild", wheel, "--source", project, "--json", cwd=tmp_path)
    assert again.code == 0, again.stderr
