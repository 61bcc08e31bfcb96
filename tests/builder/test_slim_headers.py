"""When slim headers are tried, what becomes of a try that fails, and that they change no device code."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelworks_build import resources
from kernelworks_build.action import Tree
from kernelworks_build.cli.project import open_plan
from kernelworks_build.job import Job, Project, Workplace
from kernelworks_build.make import action_of, make_toolchain
from kernelworks_build.matrix import Matrix
from kernelworks_build.progress import SILENT
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.toolchain.sysroot import CXX, ROOT
from kernelworks_build.units.directives import without_comments
from kernelworks_build.units.slim import deciding_macros, slim_set
from kernelworks_build.units.texts import Texts


@pytest.mark.parametrize(
    ("code", "chosen"),
    [
        ("#include <torch/all.h>\nvoid f(torch::Tensor& x);", "tensor"),
        ('#include "torch/torch.h"\nauto t = torch::kFloat32; auto d = at::kCUDA;', "tensor"),
        ("#include <torch/all.h>\nauto f(torch::Tensor x) { return torch::empty_like(x); }", "factories"),
        ("#include <torch/all.h>\nauto f() { return at::zeros({1}); }", "factories"),
        ("#include <torch/all.h>\n// torch::nn::Linear\n/* using namespace torch; */", "tensor"),
    ],
)
def test_code_that_keeps_to_what_they_define_is_tried_with_them(code: str, chosen: str) -> None:
    assert slim_set([without_comments(code.encode())]) == chosen


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("#include <ATen/ATen.h>\nvoid f(at::Tensor& x);", id="a header without a slim form"),
        pytest.param("#include <torch/all.h>\ntorch::nn::Linear layer(1, 1);", id="a name that they lack"),
        pytest.param("#include <torch/all.h>\nauto x = torch :: jit :: load();", id="the same, spelled with blanks"),
        pytest.param("#include <torch/all.h>\nusing namespace torch;", id="unqualified names"),
        pytest.param("#include <torch/all.h>\nnamespace t = ::at;", id="a name for the namespace"),
        pytest.param("#include <torch/all.h>\n#include OTHER", id="a macro that says what is included"),
        pytest.param(
            '#include <torch/all.h>\nauto s = "/*"; using namespace at; /* */', id="a text that looks like a comment"
        ),
        pytest.param("#include <torch/all.h>\nPYBIND11_MODULE(a, m) {}", id="converters to Python"),
    ],
)
def test_code_that_could_mean_something_else_with_them_is_not(code: str) -> None:
    assert slim_set([without_comments(code.encode())]) is None


@pytest.mark.parametrize("start", ["", "\ufeff", "/* why */ "])
def test_a_file_is_reached_whatever_stands_before_its_include(tmp_path: Path, start: str) -> None:
    (tmp_path / "a.cpp").write_text(f'{start}#include "b.h"\n')
    (tmp_path / "b.h").write_text("#if FAST\n#endif\n")
    reached = Texts.below(tmp_path).reached({"source": "/src/a.cpp"})
    assert [text.path.name for text in reached] == ["a.cpp", "b.h"]


@pytest.mark.parametrize(
    ("code", "macros"),
    [
        ("#ifdef FAST\n#elif defined(WIDE) && !defined LONG\n#endif", {"FAST", "WIDE", "LONG"}),
        ("#ifndef FAST\n#define FAST 1\n#endif\n#if FAST == 1\n#endif", {"FAST"}),
        ("#if 1 && \\\n  FAST /* or\n#if SLOW */\n#endif", {"FAST"}),
        ("#define FAST (WIDE > 1)\n#define WIDE LONG\n# if FAST\n#endif", {"FAST", "WIDE", "LONG"}),
        ("#ifndef CHECK\n#define CHECK(x) TORCH_CHECK(x)\n#endif", {"CHECK"}),
        ("#ifdef __AVX2__\n#endif\n#elifdef FAST\n#endif", {"__AVX2__", "FAST"}),
        ("#if defined(__CUDA_ARCH__) and TORCH_VERSION_MAJOR >= 2 && __has_include(<a>)\n#endif", {"a"}),
        ("#define WIDE 1\nint x = FAST;", set()),
        ("\ufeff#if FAST\n#endif", {"FAST"}),
    ],
)
def test_the_macros_that_decide_a_condition_are_those_that_it_asks_for_or_expands(code: str, macros: set[str]) -> None:
    assert deciding_macros([without_comments(code.encode())]) == macros


def test_nobody_can_tell_what_a_condition_asks_for_that_pastes_names_together() -> None:
    assert deciding_macros([b"#define HAS(x) HAS_##x\n", b"#if HAS(FAST)\n#endif"]) is None


def attempt(
    folder: Path, compiler: str, *words: str, tree: str = "torch", macros: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the script with `compiler`, the text of a shell function that stands for one; headers lie in `tree`."""
    (folder / "cc").write_text(f"#!/bin/sh\n{compiler}\n")
    (folder / "torch").mkdir(exist_ok=True)
    script = ["sh", str(resources.SLIM / "compile.sh"), "/slim/tensor", "a.o", tree, "--", *macros, "--"]
    return subprocess.run([*script, "sh", "./cc", *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("header", "tries"),
    [
        ("#define FAST 1", "full"),
        ("  #  define\tFAST(x) x", "full"),
        ("#if 0\r\n#undef FAST\r\n#endif", "full"),
        ("/* so */ #define WIDE", "full"),
        ("#define FASTER\n#define BREAKFAST\n#define OTHER FAST\n#ifdef FAST\n#endif", "slim"),
        ("int define, FAST;", "slim"),
    ],
)
def test_where_a_header_defines_a_macro_that_decides_a_condition_the_whole_headers_are_taken_at_once(
    tmp_path: Path, header: str, tries: str
) -> None:
    (tmp_path / "torch" / "include" / "c++").mkdir(parents=True)
    (tmp_path / "torch" / "include" / "c++" / "memory").write_text(header)
    done = attempt(tmp_path, 'echo "$@" >> tries', "-I/slim/tensor", "-c", macros=["FAST", "WIDE"])
    assert done.returncode == 0
    assert (tmp_path / "a.o.headers").read_text() == f"{tries}\n"
    assert (tmp_path / "tries").read_text() == ("-c\n" if tries == "full" else "-I/slim/tensor -c\n")


def test_a_tree_that_cannot_be_read_is_no_verdict_on_the_headers(tmp_path: Path) -> None:
    done = attempt(tmp_path, "touch tried", "-I/slim/tensor", tree="gone", macros=["FAST"])
    assert done.returncode != 0
    assert "gone" in done.stderr
    assert not (tmp_path / "tried").exists()


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
#include <torch/types.h>
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


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.parametrize(
    ("toolkit", "device_alone"),
    [("cu130", ["-cubin"]), pytest.param("rocm72", ["-c", "--offload-device-only"], marks=pytest.mark.rocm)],
)
def test_device_code_is_the_same_with_slim_and_with_whole_headers(
    square: Path,
    bubblewrap: Bwrap,
    fresh_cache: Mapping[str, str],
    tmp_path: Path,
    toolkit: str,
    device_alone: list[str],
) -> None:
    manifest, plan, locks = open_plan(square, [f"torch213-*-{toolkit}-*"], None)
    place = Workplace(Path(fresh_cache["KERNELWORKS_CACHE"]), locks, bubblewrap, SILENT, tmp_path / "logs")
    job = Job.of(Project.read(square, manifest, place.store), plan.variants[0], Matrix.load())
    assert job.spec
    (unit,) = (unit for unit in job.spec.document["units"] if unit["kind"] == "device")
    make_toolchain(job, place)
    code = {}
    for name, left_out in (("slim", ""), ("whole", f"-I{unit['slim']['folder']}")):
        for folder in unit["folders"]:
            (tmp_path / name / folder).mkdir(parents=True)
        words = [word for word in unit["command"] if word != left_out]
        at = words.index("-c")
        compiles = replace(
            action_of(job, job.spec, place), argv=(*words[:at], *device_alone, *words[at + 1 :]), outputs=()
        )
        done = bubblewrap.run(compiles, tmp_path / name, tmp_path / f"{name}.log")
        assert done.exit_code == 0, done.log.read_text()
        code[name] = (tmp_path / name / unit["object"]).read_bytes()
    assert len(code["slim"]) > 0
    assert code["slim"] == code["whole"]


@pytest.mark.sandbox
@pytest.mark.network
@pytest.mark.parametrize(
    ("macros", "headers", "meaning"), [(["AT_PARALLEL_OPENMP"], "full", "openmp;"), ([], "slim", "nothing;")]
)
def test_a_condition_on_a_macro_of_torch_means_the_same_as_without_slim_headers_and_would_not_unasked(
    compile_in: Callable[..., str],
    toolchain: Callable[..., dict[str, Tree]],
    tmp_path: Path,
    macros: list[str],
    headers: str,
    meaning: str,
) -> None:
    code = """
    #include <torch/all.h>
    #ifndef AT_PARALLEL_OPENMP
    #define AT_PARALLEL_OPENMP 0
    #endif
    #if AT_PARALLEL_OPENMP
    openmp;
    #else
    nothing;
    #endif
    """
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "a.cpp").write_text(code)
    includes = [
        "-I/src/tensor",
        "-isystem",
        "/opt/torch/include",
        "-isystem",
        "/opt/torch/include/torch/csrc/api/include",
    ]
    script = ["sh", "/src/compile.sh", "/src/tensor", "a.i", "/opt/torch", "/usr", ROOT, "--", *macros, "--"]
    command = [CXX, "-std=c++20", *includes, "-E", "a.cpp", "-o", "a.i"]
    trees = toolchain("host", "sysroot", "torch-2.11.0")
    compile_in(tmp_path / "build", trees, *script, *command, source=resources.SLIM)
    assert (tmp_path / "build" / "a.i.headers").read_text() == f"{headers}\n"
    assert (tmp_path / "build" / "a.i").read_text().split()[-1] == meaning


def headers_of(kernel_build: Callable[..., Any], folder: Path, variant: str, env: Mapping[str, str]) -> Any:
    """What the provenance of the one wheel that is built says of the headers."""
    done = kernel_build("build", folder, "--variant", variant, "--json", env=env)
    assert done.code == 0, done.stderr
    (wheel,) = done.document["variants"]
    with zipfile.ZipFile(folder / "dist" / wheel["wheel"]["path"]) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith("/provenance.json"))
        return json.loads(archive.read(record))["headers"]


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.network
def test_what_needs_the_whole_headers_gets_them_and_the_failed_try_is_not_repeated(
    square: Path, kernel_build: Callable[..., Any], fresh_cache: Mapping[str, str]
) -> None:
    told = headers_of(kernel_build, square, "torch213-*-cpu-*", fresh_cache)
    assert told == {"host/square_cpu/square.cpp.o": "full", BINDING: "slim"}
    (square / "torch-ext" / "square" / "__init__.py").write_text("EDITED = True\n")
    again = kernel_build("build", square, "--variant", "torch213-*-cpu-*", "--json", env=fresh_cache)
    assert again.document["variants"][0]["units-cached"] == 2
    told = headers_of(kernel_build, square, "torch213-*-cpu-*", fresh_cache)
    assert told == {"host/square_cpu/square.cpp.o": "full", BINDING: "slim"}
