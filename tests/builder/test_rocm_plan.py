"""What is planned for ROCm, and how it is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelworks_build.compile import compile_spec
from kernelworks_build.manifest import Manifest, parse_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan
from kernelworks_build.planned import BuildPlan
from kernelworks_build.toolchain.lock import LockSet

MANIFEST = """
[general]
name = "my-relu"
version = 1
edition = 5
license = "apache-2.0"
backends = ["rocm"]

[torch]
src = ["torch-ext/binding.cpp"]

[torch.stable-abi]
rocm = "2.11"

[kernel.relu]
backend = "rocm"
depends = ["torch"]
src = ["rocm/relu.hip", "rocm/host.cpp", "rocm/relu.h"]
hip-flags = ["-ffast-math"]
"""
STABLE = "torch-stable-abi211-rocm72-x86_64-linux"
GOLDEN = Path(__file__).parent / "golden" / "compile" / f"{STABLE}.json"
LOCKS = set(LockSet.load().locks)
MATRIX = Matrix.load()


def manifest(text: str) -> Manifest:
    found, diagnostics = parse_manifest(text.encode(), "build.toml")
    assert found, diagnostics
    return found


def plan(text: str = MANIFEST, locks: set[str] = LOCKS) -> BuildPlan:
    return make_plan(manifest(text), MATRIX, locks)


def test_a_stable_abi_kernel_is_one_variant_for_every_gpu_that_the_toolkit_names_first() -> None:
    (variant,) = plan().variants

    assert (variant.name, variant.headers.release) == (STABLE, "2.11.0")
    assert variant.backend.archs.sass == ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200")
    assert (variant.trees["rocm-7.2"], variant.trees["host"]) == ("/opt/rocm", "/usr")


def test_the_full_abi_has_a_variant_for_each_torch_and_says_which_it_leaves_out() -> None:
    full = plan(MANIFEST.replace('[torch.stable-abi]\nrocm = "2.11"\n', ""))

    assert {variant.name for variant in full.variants} == {
        f"torch{minor}-cxx11-rocm72-x86_64-linux" for minor in ("212", "213", "214", "215")
    }
    assert [item.subject for item in full.skipped] == ["rocm, torch 2.11.0"]


def test_without_its_toolkit_nothing_is_built_and_the_reason_is_told() -> None:
    (skipped,) = plan(locks=LOCKS - {"rocm-7.2"}).skipped

    assert (skipped.subject, skipped.reason) == (
        STABLE,
        "`rocm-7.2` is not locked; `kernel-build lock --rocm 7.2` pins it",
    )


def test_a_kernel_that_is_not_for_torch_is_not_built_and_the_reason_is_told() -> None:
    text = MANIFEST.replace("[torch]", "[tvm-ffi]").replace('[torch.stable-abi]\nrocm = "2.11"\n', "")

    found = plan(text.replace('depends = ["torch"]', "depends = []"))

    (skipped,) = found.skipped
    assert found.variants == ()
    assert skipped.subject == "tvm-ffi01-rocm72-x86_64-linux"
    assert skipped.reason == "kernels for ROCm take HIP's runtime from torch, and tvm-ffi brings none"


@pytest.mark.parametrize("archs", ["", 'rocm-archs = ["gfx942", "gfx90a:xnack+"]'], ids=["all", "some"])
def test_device_code_is_compiled_for_each_gpu_by_clang_and_linked_by_the_host_compiler(archs: str) -> None:
    (variant,) = plan(MANIFEST + archs).variants

    spec = compile_spec(manifest(MANIFEST + archs), variant, MATRIX.backends["rocm"], "_my_relu_rocm_0").document

    device = next(unit["command"] for unit in spec["units"] if unit["kind"] == "device")
    assert device[0] == "/opt/rocm/bin/clang++"
    assert [word for word in device if word.startswith("--offload-arch=")] == [
        f"--offload-arch={arch}" for arch in variant.backend.archs.sass
    ]
    assert spec["link"]["command"][0] == "/opt/sysroot/bin/g++"
    assert not [word for word in spec["link"]["command"] if "amdhip64" in word]


def test_a_variant_lowers_to_the_golden_compile_json() -> None:
    (variant,) = plan().variants

    spec = compile_spec(manifest(MANIFEST), variant, MATRIX.backends["rocm"], "_my_relu_rocm_0")

    assert json.loads(GOLDEN.read_text()) == spec.document, f"if this is meant: write the new document to {GOLDEN}"
