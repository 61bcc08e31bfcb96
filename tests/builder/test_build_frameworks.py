"""Kernels of every framework table, built whole and loaded: the full torch ABI, pybind11 modules, pure Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.metadata import METADATA_NAME
from kernelworks_build.matrix import Matrix

Program = Callable[..., Any]

HEAD = """
[general]
name = "twice"
version = 1
edition = 5
license = "apache-2.0"
backends = ["cpu"]

[general.hub]
repo-id = "demo/twice"
"""
COMPILED = f"""{HEAD}
[torch]
src = ["torch-ext/binding.cpp"]

[kernel.twice_cpu]
backend = "cpu"
depends = ["torch"]
src = ["cpu/twice.cpp"]
"""
NOARCH = f"""{HEAD.replace('["cpu"]', '["cpu", "cuda"]')}
[torch-noarch]
cuda-capabilities = ["9.0"]
"""
OP = """
#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>

at::Tensor twice(const at::Tensor& x) { return at::mul(x, 2); }
"""
BINDING = """
#include <ATen/core/Tensor.h>
#include <registration.h>
#include <torch/library.h>

at::Tensor twice(const at::Tensor& x);

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("twice(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) { ops.impl("twice", &twice); }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"""
PYBIND = """
#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>

at::Tensor twice(const at::Tensor& x);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("twice", &twice); }
"""
CUDA_HEADERS = """
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAConfig.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAStream.h>
#include <curand.h>
"""
CUDA_OP = """
void launch(const float* x, float* y, long n, cudaStream_t stream);

at::Tensor twice(const at::Tensor& x) {
  at::Tensor y = at::empty_like(x);
  launch(x.const_data_ptr<float>(), y.mutable_data_ptr<float>(), x.numel(), c10::cuda::getCurrentCUDAStream());
  return y;
}
"""
CUDA_KERNEL = """
__global__ void doubled(const float* x, float* y, long n) {
  long i = blockIdx.x * 256L + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

void launch(const float* x, float* y, long n, cudaStream_t stream) {
  doubled<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
"""
USE = """
import torch
from kernelworks import get_kernel
print(get_kernel("demo/twice").twice(torch.ones(2)).tolist())
"""


def write(project: Path, manifest: str, python: str, **sources: str) -> Path:
    """A project with these files; `binding` and `op` are the C++ ones."""
    files = {"build.toml": manifest, "torch-ext/twice/__init__.py": python}
    files |= {{"binding": "torch-ext/binding.cpp", "op": "cpu/twice.cpp"}[name]: text for name, text in sources.items()}
    for name, text in files.items():
        place = project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return project


def installed_torch() -> str:
    """The variant prefix of the torch that is installed here; skips where none of the matrix is."""
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    import torch  # noqa: PLC0415  # seconds, and only for tests that use it

    release = torch.__version__.partition("+")[0]
    for row in Matrix.load().torch:
        if row.release == release and row.full_abi:
            return f"torch{row.minor[0]}{row.minor[1]}"
    pytest.skip(f"torch {release} is not in the matrix of the full ABI")


def use(project: Path) -> str:
    """What the kernel in `project` prints in a process of its own."""
    done = run_with(project, USE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_with(project: Path, code: str) -> subprocess.CompletedProcess[str]:
    """A process that runs `code` and finds the kernel in `project`."""
    environment = os.environ | {"LOCAL_KERNELS": f"demo/twice={project / 'dist'}"}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_full_abi_kernel_is_built_for_the_installed_torch_and_loads(kernel_build: Program, tmp_path: Path) -> None:
    python = "from ._ops import ops\n\n\ndef twice(x):\n    return ops.twice(x)\n"
    project = write(tmp_path / "twice", COMPILED, python, binding=BINDING, op=OP)

    done = kernel_build("build", project, "--variant", f"{installed_torch()}-cxx11-cpu-*", "--json")

    assert done.code == 0, done.stderr
    (variant,) = done.document["variants"]
    rules = {rule["rule"]: rule for rule in variant["audit"]["rules"]}
    assert rules["torch-symbols"]["verdict"] == "pass"
    assert use(project) == "[2.0, 2.0]\n"


@pytest.mark.sandbox
@pytest.mark.cuda
@pytest.mark.slow
def test_a_full_abi_cuda_kernel_sees_the_headers_of_torch_for_cuda_and_of_the_math_libraries(
    kernel_build: Program, tmp_path: Path
) -> None:
    manifest = COMPILED.replace('"cpu"', '"cuda"').replace("cpu/twice.cpp", "cuda/twice.cu")
    binding = BINDING.replace("CPU", "CUDA").replace("#include <ATen/core/Tensor.h>", CUDA_HEADERS) + CUDA_OP
    project = write(tmp_path / "twice", manifest, "from ._ops import ops\n", binding=binding)
    (project / "cuda").mkdir()
    (project / "cuda" / "twice.cu").write_text(CUDA_KERNEL)

    done = kernel_build("build", project, "--variant", "torch213-cxx11-cu130-*", "--arch", "9.0", "--json")

    assert done.code == 0, done.stderr
    (variant,) = done.document["variants"]
    assert variant["archs"] == {"sass": ["9.0"], "ptx": []}
    rules = {rule["rule"]: rule for rule in variant["audit"]["rules"]}
    assert "libc10_cuda.so" in rules["libraries"]["findings"][0]["evidence"]


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_pybind11_module_is_built_for_one_python_and_loads(kernel_build: Program, tmp_path: Path) -> None:
    if sys.version_info[:2] not in Matrix.load().python:
        pytest.skip("the headers of this Python are not locked")
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    manifest = f'{COMPILED}\n[tool.kernelworks]\npython = ["{python}"]\n'
    author = "from ._ops import module\n\ntwice = module.twice\n"
    project = write(tmp_path / "twice", manifest, author, binding=PYBIND, op=OP)

    done = kernel_build("build", project, "--variant", f"{installed_torch()}-cxx11-cpu-*", "--json")

    assert done.code == 0, done.stderr
    (variant,) = done.document["variants"]
    tag = f"cp{python.replace('.', '')}"
    assert variant["name"].endswith(f"-{tag}")
    assert f"-{tag}-{tag}-manylinux_2_28_x86_64.whl" in variant["wheel"]["path"]
    assert use(project) == "[2.0, 2.0]\n"


@pytest.mark.sandbox
def test_a_tvm_ffi_library_is_built_without_torch_and_without_python_and_loads(
    kernel_build: Program, tmp_path: Path
) -> None:
    binding = """
#include <tvm/ffi/function.h>

long twice(long x);

TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice)
"""
    manifest = COMPILED.replace("[torch]", "[tvm-ffi]").replace("torch-ext", "tvm-ffi-ext").replace('["torch"]', "[]")
    op = "long twice(long x) { return 2 * x; }\n"
    project = write(tmp_path / "twice", manifest, "from ._ops import ops\n\ntwice = ops.twice\n", op=op)
    (project / "torch-ext").rename(project / "tvm-ffi-ext")
    (project / "tvm-ffi-ext" / "binding.cpp").write_text(binding)

    done = kernel_build("build", project, "--variant", "tvm-ffi*-cpu-*", "--json")

    assert done.code == 0, done.stderr
    (variant,) = done.document["variants"]
    rules = {rule["rule"]: rule for rule in variant["audit"]["rules"]}
    (needed,) = rules["libraries"]["findings"]
    assert "libtvm_ffi.so" in needed["evidence"]
    assert "torch" not in needed["evidence"]
    (folder,) = (project / "dist" / "build").iterdir()
    (library,) = folder.glob("*.so")
    assert f'load_module(Path(__file__).with_name("{library.name}"))' in (folder / "_ops.py").read_text()
    with zipfile.ZipFile(project / "dist" / variant["wheel"]["path"]) as wheel:
        (record,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        assert "Requires-Dist: apache-tvm-ffi\n" in wheel.read(record).decode()
    load = "from kernelworks import get_kernel\nprint(get_kernel('demo/twice', backend='cpu').twice(21))"
    without = run_with(project, f"import sys\nsys.modules['tvm_ffi'] = None\n{load}")
    assert "needs tvm-ffi 0.1, and it is not installed" in without.stderr
    pytest.importorskip("tvm_ffi", reason="needs apache-tvm-ffi")
    assert run_with(project, load).stdout == "42\n"


def test_pure_python_is_packed_for_any_machine_and_loads(kernel_build: Program, tmp_path: Path) -> None:
    installed_torch()
    project = write(tmp_path / "twice", NOARCH, "def twice(x):\n    return 2 * x\n")

    done = kernel_build("build", project, "--json")

    assert done.code == 0, done.stderr
    assert [item["name"] for item in done.document["variants"]] == ["torch-cpu", "torch-cuda"]
    metadata = json.loads((project / "dist" / "build" / "torch-cuda" / METADATA_NAME).read_bytes())
    assert "9.0" in json.dumps(metadata)
    path = project / "dist" / done.document["variants"][0]["wheel"]["path"]
    assert path.name == "twice-1+torch.cpu-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        folder = "twice-1+torch.cpu.dist-info"
        assert "Root-Is-Purelib: true" in wheel.read(f"{folder}/WHEEL").decode()
        assert "Requires-Dist: torch\n" in wheel.read(f"{folder}/METADATA").decode()
    assert use(project) == "[2.0, 2.0]\n"


def test_a_module_that_is_not_python_is_refused_with_its_line(kernel_build: Program, tmp_path: Path) -> None:
    project = write(tmp_path / "twice", NOARCH, "def twice(x):\n    return 2 *\n")

    done = kernel_build("build", project)

    assert done.code == 25, done.stderr
    assert "__init__.py" in done.stderr
    assert "is not Python: invalid syntax (line 2)" in done.stderr
