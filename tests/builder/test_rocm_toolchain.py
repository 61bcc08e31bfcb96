"""ROCm's tree: it runs on a system that is older than itself, and compiles what kernels include for an old one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.audit.elf import read_elf
from kernelworks_build.errors import ToolchainError
from kernelworks_build.matrix import Matrix
from kernelworks_build.progress import SilentProgress
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.sysroot import LINK_FLAGS

pytestmark = pytest.mark.network

PLACES = {"host": "/usr", "rocm-7.2": "/opt/rocm", "sysroot": "/opt/sysroot"}
ROW = Matrix.load().backends["rocm"]
COMPILE = " ".join(
    [
        *(str(ROW.device_compiler), *ROW.device_flags, "-std=c++20", "--offload-arch=gfx942"),
        *("-D__HIP_PLATFORM_AMD__=1", "-isystem", *ROW.include_dirs),
    ]
)
KERNEL = """
    #include <hip/hip_runtime.h>
    __global__ void scale(float* x) { x[threadIdx.x] *= 2; }
    void launch(float* x) { scale<<<1, 64>>>(x); }
"""
LIBRARIES = """
    #include <hipblas/hipblas.h>
    #include <hipblaslt/hipblaslt.h>
    #include <hipcub/hipcub.hpp>
    #include <hipfft/hipfft.h>
    #include <hiprand/hiprand_kernel.h>
    #include <hipsolver/hipsolver.h>
    #include <hipsparse/hipsparse.h>
    #include <thrust/sort.h>
    __global__ void total(float* x) {
      using Reduce = hipcub::BlockReduce<float, 256>;
      __shared__ typename Reduce::TempStorage storage;
      hiprandStatePhilox4_32_10_t state;
      hiprand_init(1, threadIdx.x, 0, &state);
      const float sum = Reduce(storage).Sum(hiprand_uniform(&state) + expf(x[threadIdx.x]));
      if (threadIdx.x == 0) *x = sum;
    }
"""


@pytest.fixture
def sh(
    bubblewrap: Bwrap, toolchain: Callable[..., Mapping[str, Tree]], tmp_path: Path
) -> Callable[..., tuple[int, str]]:
    """Runs a script in the folder `build` of `tmp_path`, with the trees at their places: its exit code and output."""
    mounts = tuple(Mount(PLACES[name], tree) for name, tree in toolchain(*PLACES).items())
    (tmp_path / "build").mkdir()

    def run(script: str) -> tuple[int, str]:
        action = Action(("/usr/bin/sh", "-euc", script), (("PATH", "/usr/bin"),), mounts, (), Limits(4 << 30, 600))
        result = bubblewrap.run(action, tmp_path / "build", tmp_path / "log")
        return result.exit_code, (tmp_path / "log").read_text()

    return run


def needed(library: Path) -> set[str]:
    with library.open("rb") as stream:
        tags = ELFFile(stream).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
        return {tag.needed for tag in tags}


def test_its_programs_need_no_library_of_the_host(rocm: Tree) -> None:
    programs = [path for path in (rocm.path / "libexec").iterdir() if path.is_file()]
    libraries = list((rocm.path / "lib").glob("*.so*"))

    missing = set().union(*map(needed, [*programs, *libraries])) - {path.name for path in libraries}

    assert len(programs) > 3
    assert missing == set()


def test_its_headers_are_those_of_rocm_alone(rocm: Tree) -> None:
    folders = {path.name for path in (rocm.path / "include").iterdir() if path.is_dir()}

    assert {"hip", "hipcub", "hiprand", "rocprim", "thrust"} <= folders
    assert not {"bits", "c++", "clang", "linux", "sys"} & folders


@pytest.mark.rocm
@pytest.mark.sandbox
def test_code_for_a_gpu_is_linked_by_the_hosts_linker_and_asks_for_no_newer_system(
    sh: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "build/a.hip").write_text(KERNEL)

    code, log = sh(f"{COMPILE} -c a.hip -o a.o; /opt/sysroot/bin/g++ -shared -o a.so a.o {' '.join(LINK_FLAGS)}")

    assert (code, log) == (0, "")
    assert needed(tmp_path / "build/a.so") <= {"libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "libm.so.6"}
    versions = {need.version for need in read_elf(tmp_path / "build/a.so", "a.so").version_needs}
    assert {version for version in versions if version.startswith("GLIBC_")} <= {"GLIBC_2.2.5", "GLIBC_2.14"}
    assert b"gfx942" in (tmp_path / "build/a.so").read_bytes()


@pytest.mark.rocm
@pytest.mark.sandbox
@pytest.mark.slow
def test_the_libraries_of_rocm_that_kernels_include_compile(sh: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    (tmp_path / "build/a.hip").write_text(LIBRARIES)

    code, log = sh(f"{COMPILE} -c a.hip -o a.o")

    assert code == 0, log


def test_a_package_that_the_archive_has_dropped_is_named_with_the_command_that_locks_anew(tmp_path: Path) -> None:
    lock = LockSet.load()["rocm-7.2"]
    (tmp_path / "archive").mkdir()
    origins = Origins.of(archives=[(tmp_path / "archive").as_uri()])
    (gone,) = (item for item in lock.artifacts if item.name == "rocm-device-libs-22")

    with pytest.raises(ToolchainError, match=r"`rocm-device-libs-22_.*\.deb` .* is at none of its origins") as caught:
        Fetcher(tmp_path / "cache", origins, SilentProgress()).fetch([gone], relock=lock.relock)

    assert "`kernel-build lock --rocm 7.2`" in str(caught.value.hint)
