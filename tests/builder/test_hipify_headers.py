"""torch's headers for ROCm: made of the locked wheel by its own hipify, the same every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kernelworks_build.action import Tree
from kernelworks_build.cli import lock
from kernelworks_build.matrix import Matrix
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.hip_torch import LIBRARIES, build_hip_torch, needs
from kernelworks_build.toolchain.lock import Lock, LockSet
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.tree import remove

NAME = "torch-rocm-2.13.0"


@pytest.fixture
def headers(toolchain: Callable[..., Mapping[str, Tree]]) -> Path:
    return toolchain(NAME)[NAME].path / "include"


@pytest.mark.sandbox
@pytest.mark.network
def test_two_makings_give_one_tree(
    bubblewrap: Bwrap, fetcher: Fetcher, toolchain: Callable[..., Mapping[str, Tree]], tmp_path: Path
) -> None:
    locked, trees = LockSet.load()[NAME], toolchain(*needs("2.13.0"))
    made = TreeStore(tmp_path).add(
        lambda into: build_hip_torch(into, locked, fetcher=fetcher, trees=trees, executor=bubblewrap)
    )
    remove(made.path)
    assert made.digest == locked.digest


@pytest.mark.sandbox
@pytest.mark.network
def test_headers_for_hip_lie_beside_those_for_cuda(headers: Path) -> None:
    stream = (headers / "c10/hip/HIPStream.h").read_text()
    assert "#include <hip/hip_runtime_api.h>" in stream
    assert "namespace c10::cuda" in stream
    assert (headers / "ATen/hip/HIPContext.h").is_file()
    assert (headers / "c10/cuda/CUDAStream.h").is_file()


@pytest.mark.sandbox
@pytest.mark.network
def test_the_stream_of_the_stable_abi_is_declared(headers: Path) -> None:
    shim = (headers / "torch/csrc/inductor/aoti_torch/c/shim.h").read_text()
    guarded = shim.partition("#ifdef USE_ROCM")[2].partition("#endif // USE_ROCM")[0]
    assert "aoti_torch_get_current_cuda_stream(int32_t device_index, void** ret_stream);" in guarded


@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.parametrize("name", ["ATen/cuda/CUDAConfig.h", "ATen/hip/HIPConfig.h"])
def test_torchs_configuration_is_that_of_a_build_for_rocm(headers: Path, name: str) -> None:
    lines = (headers / name).read_text().splitlines()
    assert {"#define AT_ROCM_ENABLED() 1", "#define AT_CUDNN_ENABLED() 0", '#define NVCC_FLAGS_EXTRA ""'} <= set(lines)


@pytest.mark.sandbox
@pytest.mark.network
def test_a_library_to_link_with_has_a_name_and_nothing_else(headers: Path) -> None:
    for name in LIBRARIES:
        with (headers.parent / "lib" / f"lib{name}.so").open("rb") as stream:
            dynamic = ELFFile(stream).get_section_by_name(".dynamic")
            assert [tag.soname for tag in dynamic.iter_tags("DT_SONAME")] == [f"lib{name}.so"]


def test_every_torch_of_the_matrix_has_its_own_and_is_relocked_with_it() -> None:
    locks = LockSet.load()
    for row in Matrix.load().torch:
        locked = locks[f"torch-rocm-{row.release}"]
        assert locked.artifacts == locks[row.lock].artifacts
        assert locked.relock == f"kernel-build lock --torch {row.release}"


def test_the_option_for_a_torch_pins_it_for_rocm_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pinned = []

    def relock(name: str, *_: object, **__: object) -> Lock:
        pinned.append(name)
        return Lock(name, "torch", "0" * 64, ())

    monkeypatch.setattr(lock, "relock", relock)
    monkeypatch.setenv("KERNELWORKS_CACHE", str(tmp_path / "cache"))
    lock.command(tmp_path, torch=["2.13.0"])
    assert pinned == ["torch-2.13.0", "torch-rocm-2.13.0"]


def test_a_lock_that_has_an_option_of_its_own_names_it() -> None:
    assert Lock("tvm-ffi-0.1", "tvm-ffi", "", ()).relock == "kernel-build lock --tvm-ffi 0.1"
