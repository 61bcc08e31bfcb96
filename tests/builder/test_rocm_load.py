"""A ROCm variant, loaded by torch with the real HIP runtime, on a machine without a GPU.

No ROCm build of torch is to be had: the CPU build stands in for it, its version says ROCm, a library of one function
is its `libtorch_hip.so`, and the device is made up. What is real: the variant, the loader, HIP's runtime, the linking.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

from kernelworks_build.action import Tree
from kernelworks_build.toolchain.lock import Artifact, Lock

pytestmark = [pytest.mark.sandbox, pytest.mark.network, pytest.mark.rocm, pytest.mark.slow]

FIXTURES = Path(__file__).parent / "fixtures" / "rocm_load"
VARIANT = "torch-stable-abi211-rocm72-x86_64-linux"
NO_DEVICE = 100
"""`hipErrorNoDevice`."""

PRELUDE = """
import ctypes, json, sys
from pathlib import Path
from types import SimpleNamespace
import torch

dist, libraries = Path(sys.argv[1]), Path(torch.__file__).parent / "lib"
for path in sorted(libraries.glob("*_hip.so")):  # as `import torch` does where torch is built for ROCm
    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 1
torch.cuda.get_device_properties = lambda device: SimpleNamespace(gcnArchName="gfx942:sramecc+:xnack-")
logits, target = torch.zeros(1, 4), torch.zeros(1, dtype=torch.int64)
"""
ALONE = """
(binary,) = dist.glob("build/*/*.abi3.so")
torch.ops.load_library(binary)
ident = binary.name.partition(".")[0]
has = lambda key: torch._C._dispatch_has_kernel_for_dispatch_key(f"{ident}::cross_entropy", key)
try:
    called = str(getattr(torch.ops, ident).cross_entropy(logits, target))
except NotImplementedError as error:
    called = str(error)
devices = ctypes.CDLL("libamdhip64.so.7").hipGetDeviceCount(ctypes.byref(ctypes.c_int()))
print(json.dumps({"keys": [key for key in ("CPU", "CUDA") if has(key)], "called": called, "devices": devices}))
"""
LOADED = """
from kernelworks import get_loaded_kernels, get_local_kernel
kernel = get_local_kernel(dist)
(loaded,) = get_loaded_kernels()
print(json.dumps({"variant": loaded.variant.name, "loss": kernel.cross_entropy(logits, target).item()}))
"""
REFUSED = """
from kernelworks import get_local_kernel
from kernelworks.errors import KernelworksError
try:
    get_local_kernel(dist)
except KernelworksError as error:
    print(json.dumps({"code": error.code, "message": str(error)}))
"""

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def dist(kernel_build: Callable[..., Any], rocm: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001  # or it skips
    """What is built of the template for one architecture."""
    folder = tmp_path_factory.mktemp("project") / "cross-entropy"
    for arguments in (("init", "demo/cross-entropy", "--template", "rocm", "--dir"), ("build", "--arch", "gfx942")):
        done = kernel_build(*arguments, folder)
        assert done.code == 0, done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def hip(unpacked_debs: Callable[[Iterable[Artifact]], Path]) -> Path:
    """Folder of HIP's runtime and what it needs besides the libraries of ROCm's tree."""
    lock = Lock.parse((FIXTURES / "hip-runtime-7.2.toml").read_text(encoding="utf-8"), "the lock of HIP's runtime")
    return unpacked_debs(lock.artifacts)


@pytest.fixture(scope="module")
def torch_for_rocm(hip: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder to import torch from: the installed one, whose version says ROCm, with the libraries of such a build."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("this interpreter has no torch")
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine to make a stand-in for torch's library")
    installed, site = Path(spec.origin).parent, tmp_path_factory.mktemp("site")
    mirror(installed, site / "torch", without={"lib", "version.py", "__pycache__"})
    mirror(installed / "lib", site / "torch" / "lib")
    version = (installed / "version.py").read_text(encoding="utf-8")
    (site / "torch" / "version.py").write_text(f"{version}\ncuda = None\nhip = '7.2.53211'\n", encoding="utf-8")
    runtime = ("-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", hip / "libamdhip64.so.7")
    for name, inputs in {"torch_hip": (FIXTURES / "torch_hip.c", *runtime), "c10_hip": ()}.items():
        out = site / "torch" / "lib" / f"lib{name}.so"
        link = ("gcc", "-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{out.name}", "-o", out)
        subprocess.run([*link, *inputs, "-x", "c", os.devnull], check=True)
    return site


@pytest.fixture(scope="module")
def run(dist: Path, rocm: Tree, hip: Path) -> Run:
    """Runs a program with torch from `site`, by the loader of ROCm's tree: the runtime asks for a glibc as new."""

    def by_its_loader(program: str, site: Path) -> dict[str, Any]:
        python = Path(sys.executable)
        loader = (rocm.path / "lib" / "ld-linux-x86-64.so.2", "--argv0", python)
        libraries = ("--library-path", f"{rocm.path / 'lib'}:{hip}")
        command = [*loader, *libraries, python.resolve(), "-c", PRELUDE + program, dist]
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(site), "HOME": str(site)}
        done = subprocess.run(command, env=env, cwd=site, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return by_its_loader


def mirror(folder: Path, into: Path, without: Collection[str] = ()) -> None:
    """Make the folder `into`, of links to what is in `folder`."""
    into.mkdir()
    for entry in folder.iterdir():
        if entry.name not in without:
            (into / entry.name).symlink_to(entry)


def test_the_build_says_what_nobody_could_check(dist: Path, kernel_build: Callable[..., Any]) -> None:
    again = kernel_build("build", dist.parent, "--arch", "gfx942")
    (wheel,) = dist.glob("wheels/*.whl")
    (report,) = kernel_build("audit", wheel, "--json").document["wheels"]

    assert "pass, not checked: torch-symbols" in again.stdout
    assert [rule["rule"] for rule in report["rules"] if rule["verdict"] == "not checked"] == ["torch-symbols"]
    assert report["ok"]
    assert report["device-archs"] == {"sass": ["gfx942"], "ptx": []}


def test_the_binary_alone_registers_its_operators_for_the_gpu_and_for_nothing_else(
    run: Run, torch_for_rocm: Path
) -> None:
    found = run(ALONE, torch_for_rocm)

    assert found["keys"] == ["CUDA"]  # ROCm's torch dispatches its devices under that key
    assert "Could not run" in found["called"]
    assert "'CPU' backend" in found["called"]
    assert found["devices"] == NO_DEVICE


def test_the_loader_takes_and_loads_the_variant(run: Run, torch_for_rocm: Path) -> None:
    found = run(LOADED, torch_for_rocm)

    assert found["variant"] == VARIANT
    assert found["loss"] == pytest.approx(1.3862944)


def test_without_the_library_that_a_torch_for_rocm_has_it_is_refused_before_it_is_opened(
    run: Run, torch_for_rocm: Path, tmp_path: Path
) -> None:
    mirror(torch_for_rocm / "torch", tmp_path / "torch", without={"lib"})
    libraries = tmp_path / "torch" / "lib"
    mirror(torch_for_rocm / "torch" / "lib", libraries, without={"libtorch_hip.so"})

    found = run(REFUSED, tmp_path)

    assert found["code"] == "resolve"
    assert "libtorch_hip.so" in found["message"]
    assert "aoti_torch_get_current_cuda_stream" in found["message"]
