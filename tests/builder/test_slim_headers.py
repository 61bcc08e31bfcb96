"""When slim headers are tried, what becomes of a try that fails, and that they change no device code."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from kernelworks_build import resources
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.units.slim import slim_set

MACROS = {"CUDA_KERNEL", "TORCH_EXTENSION_NAME"}


@pytest.mark.parametrize(
    ("code", "chosen"),
    [
        ("#include <torch/all.h>\nvoid f(torch::Tensor& x);", "tensor"),
        ('#include "torch/torch.h"\nauto t = torch::kFloat32; auto d = at::kCUDA;', "tensor"),
        ("#include <torch/all.h>\nauto f(torch::Tensor x) { return torch::empty_like(x); }", "factories"),
        ("#include <torch/all.h>\nauto f() { return at::zeros({1}); }", "factories"),
        ("#include <torch/all.h>\n#ifdef __CUDA_ARCH__\n#elif defined(CUDA_KERNEL)\n#endif", "tensor"),
        ("#include <torch/all.h>\n#define WIDE\n#ifdef WIDE\n#endif", "tensor"),
        ("#include <torch/all.h>\n// torch::nn::Linear\n/* #ifdef AT_PARALLEL_OPENMP */", "tensor"),
    ],
)
def test_code_that_keeps_to_what_they_define_is_tried_with_them(code: str, chosen: str) -> None:
    assert slim_set([code.encode()], MACROS) == chosen


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("#include <ATen/ATen.h>\nvoid f(at::Tensor& x);", id="a header without a slim form"),
        pytest.param("#include <torch/all.h>\ntorch::nn::Linear layer(1, 1);", id="a name that they lack"),
        pytest.param("#include <torch/all.h>\nauto x = torch :: jit :: load();", id="the same, spelled with blanks"),
        pytest.param("#include <torch/all.h>\nusing namespace torch;", id="unqualified names"),
        pytest.param("#include <torch/all.h>\nnamespace t = ::at;", id="a name for the namespace"),
        pytest.param("#include <torch/all.h>\n#ifdef AT_PARALLEL_OPENMP\n#endif", id="a condition on a macro of torch"),
        pytest.param("#include <torch/all.h>\n#if 1 && \\\n  defined(AT_X)\n#endif", id="a condition on two lines"),
        pytest.param("#include <torch/all.h>\nPYBIND11_MODULE(a, m) {}", id="converters to Python"),
    ],
)
def test_code_that_could_mean_something_else_with_them_is_not(code: str) -> None:
    assert slim_set([code.encode()], MACROS) is None


def attempt(folder: Path, compiler: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script with `compiler`, the text of a shell function that stands for one."""
    (folder / "cc").write_text(f"#!/bin/sh\n{compiler}\n")
    command = ["sh", str(resources.SLIM / "compile.sh"), "/slim/tensor", "a.o", "sh", "./cc", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_try_that_succeeds_is_the_only_one(tmp_path: Path) -> None:
    done = attempt(tmp_path, 'echo "$@" >> tries', "-I/slim/tensor", "-c", "a b.cpp")
    assert done.returncode == 0
    assert (tmp_path / "tries").read_text() == "-I/slim/tensor -c a b.cpp\n"
    assert (tmp_path / "a.o.headers").read_text() == "slim\n"


def test_a_try_that_fails_is_followed_by_one_with_the_whole_headers_whose_words_alone_are_told(tmp_path: Path) -> None:
    error = "/usr/include/c++/12/memory:1: error: no such name"
    compiler = f'case $1 in -I*) echo "{error}"; exit 1;; esac; echo fine; echo "$# $2" > last'
    done = attempt(tmp_path, compiler, "-I/slim/tensor", "-c", "a b.cpp")
    assert (done.returncode, done.stdout) == (0, "fine\n")
    assert (tmp_path / "last").read_text() == "2 a b.cpp\n"
    assert (tmp_path / "a.o.headers").read_text() == "full\n"


@pytest.mark.parametrize(
    "end",
    [
        "kill -9 $$",
        "echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1",
        "echo 'cc1plus: out of memory allocating 65536 bytes'; exit 1",
        "echo 'a.s: No space left on device'; exit 1",
    ],
)
def test_a_try_that_the_system_ended_is_no_verdict_on_the_headers(tmp_path: Path, end: str) -> None:
    done = attempt(tmp_path, f"echo x >> tries; {end}", "-I/slim/tensor")
    assert done.returncode != 0
    assert (tmp_path / "tries").read_text() == "x\n"
    assert not (tmp_path / "a.o.headers").exists()


MANIFEST = """
[general]
name = "square"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda", "rocm"]

[torch]
src = ["torch-ext/torch_binding.cpp"]

[kernel.square_cpu]
backend = "cpu"
depends = ["torch"]
src = ["square.cpp"]

[kernel.square_cuda]
backend = "cuda"
cuda-capabilities = ["9.0"]
depends = ["torch"]
src = ["square.cu"]

[kernel.square_rocm]
backend = "rocm"
depends = ["torch"]
rocm-archs = ["gfx942"]
src = ["square.cu"]
"""
BINDING = "host/binding/torch-ext/torch_binding.cpp.o"
CPU_SOURCE = """
#include <torch/all.h>
torch::Tensor square(const torch::Tensor& x) { return at::mm(x, x); }
"""
CUDA_SOURCE = """
#include <torch/all.h>
template <typename T> __global__ void square_kernel(T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * x[i];
}
void square(torch::Tensor& x) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "square", [&] {
    square_kernel<scalar_t><<<(x.numel() + 255) / 256, 256>>>(x.mutable_data_ptr<scalar_t>(), x.numel());
  });
}
"""


@pytest.fixture
def square(bubblewrap: Bwrap, tmp_path: Path) -> Path:  # noqa: ARG001  # it must work first
    """A kernel of the full ABI whose CPU source needs more of torch than the slim headers have."""
    folder = tmp_path / "square"
    (folder / "torch-ext" / "square").mkdir(parents=True)
    (folder / "build.toml").write_text(MANIFEST)
    (folder / "torch-ext" / "square" / "__init__.py").touch()
    (folder / "torch-ext" / "torch_binding.cpp").write_text(
        """
        #include <torch/all.h>
        #include "registration.h"
        TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("square(Tensor x) -> Tensor"); }
        REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
        """
    )
    (folder / "square.cpp").write_text(CPU_SOURCE)
    (folder / "square.cu").write_text(CUDA_SOURCE)
    return folder


def built(kernel_build: Callable[..., Any], folder: Path, variant: str, env: Mapping[str, str]) -> tuple[bytes, Any]:
    """The device code of the one library that is built, and what the provenance says of its headers."""
    done = kernel_build("build", folder, "--variant", variant, "--json", env=env)
    assert done.code == 0, done.stderr
    (wheel,) = done.document["variants"]
    with zipfile.ZipFile(folder / "dist" / wheel["wheel"]["path"]) as archive:
        (library,) = (name for name in archive.namelist() if name.endswith(".so"))
        (record,) = (name for name in archive.namelist() if name.endswith("/provenance.json"))
        elf = ELFFile(io.BytesIO(archive.read(library)))
        sections = (elf.get_section_by_name(name) for name in (".nv_fatbin", ".hip_fatbin"))
        code = b"".join(section.data() for section in sections if section)
        return code, json.loads(archive.read(record)).get("headers")


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.parametrize(
    ("toolkit", "component"),
    [("cu130", "square_cuda"), pytest.param("rocm72", "square_rocm", marks=pytest.mark.rocm)],
)
def test_device_code_is_the_same_with_slim_and_with_whole_headers(
    square: Path, kernel_build: Callable[..., Any], fresh_cache: Mapping[str, str], toolkit: str, component: str
) -> None:
    slim, told = built(kernel_build, square, f"torch213-*-{toolkit}-*", fresh_cache)
    assert told == {f"device/{component}/square.cu.o": "slim", BINDING: "slim"}
    (square / "build.toml").write_text(f"{MANIFEST}\n[tool.kernelworks]\nslim-headers = false\n")
    whole, told = built(kernel_build, square, f"torch213-*-{toolkit}-*", fresh_cache)
    assert told is None
    assert len(slim) > 0
    assert slim == whole


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.network
def test_what_needs_the_whole_headers_gets_them_and_the_failed_try_is_not_repeated(
    square: Path, kernel_build: Callable[..., Any], fresh_cache: Mapping[str, str]
) -> None:
    _, told = built(kernel_build, square, "torch213-*-cpu-*", fresh_cache)
    assert told == {"host/square_cpu/square.cpp.o": "full", BINDING: "slim"}
    (square / "torch-ext" / "square" / "__init__.py").write_text("EDITED = True\n")
    again = kernel_build("build", square, "--variant", "torch213-*-cpu-*", "--json", env=fresh_cache)
    assert again.document["variants"][0]["units-cached"] == 2
    _, told = built(kernel_build, square, "torch213-*-cpu-*", fresh_cache)
    assert told == {"host/square_cpu/square.cpp.o": "full", BINDING: "slim"}
