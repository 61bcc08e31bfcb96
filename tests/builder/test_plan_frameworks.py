"""Which variants a manifest has by its framework table: full ABI, stable ABI, pure Python."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelworks_build.compile import compile_spec
from kernelworks_build.errors import PlanError
from kernelworks_build.manifest import Manifest, parse_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan
from kernelworks_build.planned import BuildPlan
from kernelworks_build.toolchain.lock import LockSet

MATRIX = Matrix.load()
LOCKS = set(LockSet.load().locks)
HEAD = """
[general]
name = "my-relu"
version = 1
edition = 5
license = "apache-2.0"
backends = ["cpu", "cuda"]
"""
FULL = f"""{HEAD}
[torch]
src = ["torch-ext/binding.cpp"]

[kernel.relu_cpu]
backend = "cpu"
depends = ["torch"]
src = ["cpu/relu.cpp"]

[kernel.relu_cuda]
backend = "cuda"
depends = ["torch"]
src = ["cuda/relu.cu", "cuda/host.cpp"]
"""


def manifest(text: str) -> Manifest:
    found, diagnostics = parse_manifest(text.encode(), "build.toml")
    assert found, diagnostics
    return found


def plan(text: str, locks: set[str] = LOCKS, matrix: Matrix = MATRIX) -> BuildPlan:
    return make_plan(manifest(text), matrix, locks)


def reasons(found: BuildPlan) -> dict[str, str]:
    return {item.subject: item.reason for item in found.skipped}


def test_the_full_abi_has_a_variant_for_each_of_four_torch_releases_and_each_toolkit_that_they_load() -> None:
    found = plan(FULL)
    assert [item.name.removesuffix("-x86_64-linux") for item in found.variants] == [
        *(f"torch{digits}-cxx11-cpu" for digits in (212, 213, 214, 215)),
        *("torch212-cxx11-cu124", "torch212-cxx11-cu130", "torch212-cxx11-cu132"),
        *("torch213-cxx11-cu130", "torch213-cxx11-cu132"),
        *("torch214-cxx11-cu130", "torch215-cxx11-cu130", "torch215-cxx11-cu132"),
    ]
    assert all(item.headers and item.torch_releases == (item.headers.release,) for item in found.variants)
    assert "no torch is known to be published" in reasons(found)["torch214-cxx11-cu132-x86_64-linux"]
    assert reasons(found)["cuda, torch 2.11.0"] == "it is locked for the stable ABI alone"


def test_a_release_of_which_no_build_is_known_gets_every_toolkit() -> None:
    newer = MATRIX.with_torch(["2.16.0"])
    found = plan(FULL, LOCKS | {"torch-2.16.0"}, newer)
    assert [item.name for item in found.variants if item.name.startswith("torch216-cxx11-cu")] == [
        "torch216-cxx11-cu124-x86_64-linux",
        "torch216-cxx11-cu130-x86_64-linux",
        "torch216-cxx11-cu132-x86_64-linux",
    ]


def test_bounds_of_torch_and_missing_locks_leave_releases_out_with_the_reason() -> None:
    bounded = FULL.replace("[torch]\n", '[torch]\nminver = "2.13"\nmaxver = "2.14"\n')
    found = plan(bounded, LOCKS - {"torch-2.14.1"})
    assert {item.torch_releases for item in found.variants} == {("2.13.0",)}
    assert reasons(found)["cpu, torch 2.12.1"] == "it is older than `[torch] minver` 2.13"
    assert reasons(found)["cpu, torch 2.15.0"] == "it is newer than `[torch] maxver` 2.14"
    assert "`kernel-build lock --torch 2.14.1`" in reasons(found)["cpu, torch 2.14.1"]


def test_bounds_that_leave_no_torch_are_an_error() -> None:
    with pytest.raises(PlanError, match="no locked torch release is left to build for"):
        plan(FULL.replace("[torch]\n", '[torch]\nminver = "2.99"\n'))


def test_a_backend_without_a_stable_floor_is_built_for_the_full_abi() -> None:
    mixed = FULL.replace("[kernel.relu_cpu]", '[torch.stable-abi]\ncuda = "2.11"\n\n[kernel.relu_cpu]')
    kinds = {item.backend.kind: item.framework.kind for item in plan(mixed).variants}
    assert kinds == {"cpu": "torch", "cuda": "torch-stable-abi"}


def test_full_abi_units_are_compiled_with_the_standard_of_their_torch_and_without_a_stable_target() -> None:
    *_, planned = plan(FULL).variants
    row = MATRIX.backends["cuda"]
    spec = compile_spec(manifest(FULL), planned, row, "_my_relu_cuda_0")
    commands = [" ".join(unit["command"]) for unit in spec.document["units"]]
    assert all("-std=c++20" in command for command in commands)
    assert not any("TORCH_TARGET_VERSION" in command for command in commands)
    assert spec.unit_memory == row.unit_memory["full"]


def test_a_library_is_included_by_the_components_that_depend_on_it_alone_and_its_lock_is_needed() -> None:
    text = FULL + '\n[kernel.gemm]\nbackend = "cuda"\ndepends = ["torch", "cutlass_3_8"]\nsrc = ["cuda/gemm.cu"]\n'
    planned = next(item for item in plan(text).variants if item.backend.kind == "cuda")
    assert planned.trees["cutlass-3.8"] == "/opt/cutlass-3.8"
    spec = compile_spec(manifest(text), planned, MATRIX.backends["cuda"], "_my_relu_cuda_0")
    users = [unit["source"] for unit in spec.document["units"] if "/opt/cutlass-3.8/include" in unit["command"]]
    assert users == ["/src/cuda/gemm.cu"]
    assert "`cutlass-3.8` is not locked" in reasons(plan(text, LOCKS - {"cutlass-3.8"}))[planned.name]


def test_every_library_that_a_manifest_may_name_is_provided_or_has_a_reason_why_not() -> None:
    from kernelworks_build.manifest.dependencies import cxx_dependencies  # noqa: PLC0415  # of this test alone

    assert {*MATRIX.depends, "torch"} == set(cxx_dependencies())
    for name, library in MATRIX.depends.items():
        assert library.lock in LOCKS if library.lock else library.missing, name


def test_pure_python_has_one_variant_per_backend_whatever_can_be_compiled_here() -> None:
    text = HEAD.replace('"cuda"]', '"cuda", "rocm", "xpu"]') + "\n[torch-noarch]\n"
    found = plan(text, set())
    assert [item.name for item in found.variants] == ["torch-cpu", "torch-cuda", "torch-rocm", "torch-xpu"]
    assert not found.skipped
    assert {(item.headers, tuple(item.trees), item.python_abi.kind) for item in found.variants} == {(None, (), "none")}


def test_tvm_ffi_has_one_variant_per_toolkit_for_its_one_release_and_no_python_abi() -> None:
    text = FULL.replace("[torch]", "[tvm-ffi]").replace("torch-ext", "tvm-ffi-ext").replace('["torch"]', "[]")
    found = plan(text)
    assert [item.name.removesuffix("-x86_64-linux") for item in found.variants] == [
        *("tvm-ffi01-cpu", "tvm-ffi01-cu124", "tvm-ffi01-cu130", "tvm-ffi01-cu132")
    ]
    planned = found.variants[0]
    assert (planned.python_abi.kind, planned.torch_releases, "python" in planned.trees) == ("none", (), False)
    spec = compile_spec(manifest(text), planned, MATRIX.backends["cpu"], "_my_relu_cpu_0")
    link = " ".join(spec.document["link"]["command"])
    assert spec.output == "_my_relu_cpu_0.so"
    assert "torch" not in link
    assert "-L/opt/tvm-ffi/lib -Wl,--no-as-needed -lstdc++ -ltvm_ffi" in link
    assert "is not locked" in reasons(plan(text, LOCKS - {"tvm-ffi-0.1"}))["cpu"]


def test_each_python_that_is_asked_for_has_its_own_variants_and_one_without_headers_is_an_error() -> None:
    text = FULL.replace('["cpu", "cuda"]', '["cpu"]').partition("[kernel.relu_cuda]")[0]
    planned, *_ = plan(f'{text}\n[tool.kernelworks]\npython = ["3.11"]\n').variants
    assert planned.name == "torch212-cxx11-cpu-x86_64-linux-cp311"
    assert (planned.python_abi.kind, planned.python_abi.version) == ("exact", (3, 11))
    spec = compile_spec(manifest(text), planned, MATRIX.backends["cpu"], "_my_relu_cpu_0")
    assert spec.output == "_my_relu_cpu_0.cpython-311-x86_64-linux-gnu.so"
    assert not any("Py_LIMITED_API" in " ".join(unit["command"]) for unit in spec.document["units"])
    assert "-ltorch_python" in spec.document["link"]["command"]
    newer, *_ = plan(f'{text}\n[tool.kernelworks]\npython = ["3.13"]\n').variants
    assert (newer.name[-5:], newer.trees["python-3.13"]) == ("cp313", "/opt/python")
    compiled = compile_spec(manifest(text), newer, MATRIX.backends["cpu"], "_x").document["units"][0]["command"]
    assert "/opt/python/include/python3.13" in compiled
    with pytest.raises(PlanError, match=r"`CPython 3\.7` cannot be built: its headers are not locked \(known: 3\.11"):
        plan(f'{text}\n[tool.kernelworks]\npython = ["3.7"]\n')


def test_a_matrix_without_toolkits_of_a_backend_has_no_variant_of_it() -> None:
    bare = replace(MATRIX, backends={"cpu": MATRIX.backends["cpu"]})
    found = plan(FULL, matrix=bare)
    assert {item.backend.kind for item in found.variants} == {"cpu"}
    assert "not built yet" in reasons(found)["cuda"]
