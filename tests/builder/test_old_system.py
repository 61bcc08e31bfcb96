"""A built kernel, loaded and called by torch on an old system: the loader and libraries of Debian 11."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelworks_build.action import Tree
from kernelworks_build.toolchain.sysroot import CXX, LINK_FLAGS, SYSTEM_LIBRARIES

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

SOURCES = Path(__file__).parent / "fixtures"
CPU = "torch-stable-abi211-cpu-x86_64-linux"
PROBE = (
    *("-shared", "-fPIC", "-fno-gnu-unique", "-DTORCH_TARGET_VERSION=0x020b000000000000"),
    *("-isystem", "/opt/torch/include", "/src/old_system/probe.cpp", *LINK_FLAGS),
    *("-L/opt/torch/lib", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"),
)


@pytest.fixture
def torch_folder() -> Path:
    """Where the torch of this interpreter lies; it is not imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("this interpreter has no torch whose libraries could run the kernel")
    return Path(spec.origin).parent


@pytest.fixture
def built(toolchain: Callable[..., dict[str, Tree]], compile_in: Callable[..., str], tmp_path: Path) -> Path:
    """Folder with `probe.so`, built as kernels are, that calls a kernel, and the program `main` that loads it."""
    folder, trees = tmp_path / "build", toolchain("host", "sysroot", "torch-2.11.0")
    folder.mkdir()
    for out, inputs in {"probe.so": PROBE, "main": ("/src/sysroot/main.cpp",)}.items():
        compile_in(folder, trees, CXX, "-std=c++20", "-O2", *inputs, "-o", out, *SYSTEM_LIBRARIES, source=SOURCES)
    return folder


def test_a_cpu_kernel_loads_and_computes_under_a_real_glibc_2_31(
    project: Path, built: Path, old_system: Path, torch_folder: Path
) -> None:
    (kernel,) = (project / "dist" / "build" / CPU).glob("*.abi3.so")
    loader, libraries = old_system / "ld-2.31.so", f"{old_system}:{torch_folder / 'lib'}"
    argv = (loader, "--library-path", libraries, built / "main", built / "probe.so", kernel)

    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={})

    assert (done.returncode, done.stderr) == (0, "")
    said = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert ["glibc", "2.31"] in said
    assert len([text for word, text in said if word == "result" and float(text)]) == 3
    loaded = {Path(os.path.realpath(text)) for word, text in said if word == "loaded"}
    assert kernel.resolve() in loaded
    known = [folder.resolve() for folder in (old_system, torch_folder.parent, kernel.parent, built)]
    assert [path for path in loaded if not any(path.is_relative_to(folder) for folder in known)] == []
