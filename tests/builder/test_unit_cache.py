"""Objects that were compiled before: the same bytes, and only where nothing differs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

Program = Callable[..., Any]
CPU = ("--variant", "*-cpu-*")
CUDA = ("--variant", "*-cu130-*", "--arch", "9.0")
BINDING = "host/binding/torch-ext/torch_binding.cpp.o"
KERNEL = "host/silu_and_mul_cpu/cpu/silu_and_mul.cpp.o"
DEVICE = "device/silu_and_mul_cuda/cuda/silu_and_mul.cu.o"


@pytest.fixture
def twin(project: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(project, tmp_path / "twin", ignore=shutil.ignore_patterns("dist")))


@pytest.fixture
def build(kernel_build: Program, twin: Path, fresh_cache: Mapping[str, str]) -> Callable[..., Any]:
    """Builds the one variant asked for; gives what `--json` tells of it."""

    def run(*arguments: str) -> Any:
        done = kernel_build("build", twin, *arguments, "--json", env=fresh_cache)
        assert done.code == 0, done.stderr
        (variant,) = done.document["variants"]
        return variant

    return run


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def compiled(variant: Any) -> set[str]:
    return {unit["object"] for unit in variant["units"]}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "shared"), [(CPU, KERNEL), (CUDA, DEVICE)], ids=["cpu", "cuda"])
def test_a_build_from_cached_units_is_the_one_that_compiles_all(
    build: Callable[..., Any], twin: Path, fresh_cache: Mapping[str, str], asked: tuple[str, ...], shared: str
) -> None:
    assert compiled(build(*asked)) == {BINDING, shared}
    edit(twin / "torch-ext" / "silu_and_mul" / "__init__.py", "\n", "\nEDITED = True\n")  # another name of its ops
    reused = build(*asked)
    assert (compiled(reused), reused["units-cached"]) == (set(), 2)
    for results in ("actions", "units", "variants"):
        shutil.rmtree(Path(fresh_cache["KERNELWORKS_CACHE"]) / results)
    cold = build(*asked)
    assert (compiled(cold), cold["units-cached"]) == ({BINDING, shared}, 0)
    assert cold["wheel"]["sha256"] == reused["wheel"]["sha256"]


def test_an_edit_of_one_file_compiles_that_file_alone(build: Callable[..., Any], twin: Path) -> None:
    build(*CPU)
    edit(twin / "cpu" / "silu_and_mul.cpp", "\n", "\nint edited = 1;\n")
    assert compiled(build(*CPU)) == {KERNEL}


def test_of_a_build_that_fails_what_was_compiled_is_kept(
    build: Callable[..., Any], kernel_build: Program, twin: Path, fresh_cache: Mapping[str, str]
) -> None:
    binding = twin / "torch-ext" / "torch_binding.cpp"
    edit(binding, "\n", "\nint broken = nothing;\n")
    assert kernel_build("build", twin, *CPU, env=fresh_cache).code == 24
    edit(binding, "nothing", "1")
    mended = build(*CPU)
    assert (compiled(mended), mended["units-cached"]) == ({BINDING}, 1)


def test_it_can_be_turned_off(build: Callable[..., Any], fresh_cache: Mapping[str, str]) -> None:
    assert compiled(build(*CPU, "--no-unit-cache")) == {BINDING, KERNEL}
    assert not list(Path(fresh_cache["KERNELWORKS_CACHE"]).glob("units/*.*.*"))


@pytest.mark.slow
def test_another_torch_compiles_no_device_code_that_does_not_include_it(
    kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(Path(__file__).parent / "fixtures" / "scale", tmp_path / "scale"))
    first, second = (
        kernel_build("build", folder, "--variant", variant, "--json", env=fresh_cache).document["variants"][0]
        for variant in ("torch213-*-cu130-*", "torch215-*-cu130-*")
    )
    device = "device/scale_cuda/cuda/scale.cu.o"
    assert device in compiled(first)
    assert (device in compiled(second), second["units-cached"]) == (False, 1)
