"""A kernel of the full ABI and one of the stable ABI of torch, from the first build on, beside `cpp_extension`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.building import costs
from benchmarks.building.costs import PROGRAM, Options, Step, account, fresh_cache

from kernelworks_build import resources

__all__ = ["full_abi", "stable_abi"]

FULL_ABI = Path(__file__).parents[2] / "tests" / "builder" / "fixtures" / "scale"
ARCHS = ("9.0", "10.0", "8.0", "12.0", "8.9", "8.6", "7.5", "11.0")
SHARED = ("artifacts", "trees")
CPP_EXTENSION = """
import resource
import sys
from torch.utils.cpp_extension import load
include, flags, *sources = sys.argv[1:]
load("benchmark", sources, extra_include_paths=[include], extra_cflags=["-O3", "-DCPU_KERNEL", *flags.split()],
     build_directory=".", is_python_module=False)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel to build.

    Attributes:
        folder: Where its copy lies.
        cpu: Its CPU variant, as a pattern.
        cuda: Its CUDA variant.
        another_torch: The CUDA variant of one more torch; None where one serves all.
        sources: What its CPU variant is made of.
        flags: What `cpp_extension` needs besides.
        edited: The file that is edited.
    """

    name: str
    folder: Path
    cpu: str
    cuda: str
    another_torch: str | None
    sources: tuple[str, ...]
    flags: str
    edited: str


def full_abi(root: Path, options: Options) -> Iterator[Step]:
    """The fixture `scale`, which has a variant for each torch."""
    folder = Path(shutil.copytree(FULL_ABI, root / "scale"))
    kernel = Kernel(
        name="full ABI",
        folder=folder,
        cpu="torch213-*-cpu-*",
        cuda="torch213-*-cu130-*",
        another_torch="torch215-*-cu130-*",
        sources=("torch-ext/torch_binding.cpp", "cpu/scale.cpp"),
        flags="-std=c++20",
        edited="cpu/scale.cpp",
    )
    return steps(kernel, fresh_cache(root, options, SHARED), options)


def stable_abi(root: Path, options: Options) -> Iterator[Step]:
    """The template `stable_abi`, of which one variant serves every torch."""
    folder = root / "silu-and-mul"
    subprocess.run([PROGRAM, "init", "demo/silu-and-mul", "--dir", folder], check=True, capture_output=True)
    kernel = Kernel(
        name="stable ABI",
        folder=folder,
        cpu="*-cpu-*",
        cuda="*-cu130-*",
        another_torch=None,
        sources=("torch-ext/torch_binding.cpp", "cpu/silu_and_mul.cpp"),
        flags="-std=c++20 -DTORCH_TARGET_VERSION=0x020b000000000000",
        edited="cpu/silu_and_mul.cpp",
    )
    return steps(kernel, fresh_cache(root, options, SHARED), options)


def steps(kernel: Kernel, cache: Path, options: Options) -> Iterator[Step]:
    """Every step, in a cache that holds no results yet."""

    def build(name: str, *variants: str, asked: int = 1) -> Step:
        chosen = [word for variant in variants for word in ("--variant", variant)]
        return costs.build(kernel.folder, kernel.name, name, cache, *chosen, "--arch", ",".join(ARCHS[:asked]))

    torch = cpp_extension(kernel)
    cold = build("cold, cpu", kernel.cpu)
    yield replace(cold, compared=f"1/{torch.cpu / cold.cpu:.2f} of cpp_extension")
    yield torch
    yield build("cold, cuda, 1 arch", kernel.cuda)
    yield build("again, both", kernel.cpu, kernel.cuda)
    if kernel.another_torch:
        yield build("+1 torch, cuda", kernel.another_torch)
    yield build("+1 arch, cuda", kernel.cuda, asked=2)
    if options.archs > 2:
        yield build(f"{options.archs} archs, cuda", kernel.cuda, asked=options.archs)
    with (kernel.folder / kernel.edited).open("a") as file:
        file.write("\nint edited = 1;\n")
    edit = build(f"edit of {kernel.edited}", kernel.cpu)
    yield replace(edit, compared=f"{edit.cpu / edit.compilers:.2f}x the file alone")
    if options.matrix:
        yield build("matrix, what is left", "*-cpu-*", "*-cu130-*")
        yield build("matrix, unchanged", "*-cpu-*", "*-cu130-*")


def cpp_extension(kernel: Kernel) -> Step:
    """Build the CPU variant as torch does, with the torch and the compiler of this machine."""
    with TemporaryDirectory() as temporary:
        sources = [str(kernel.folder / source) for source in kernel.sources]
        command = [sys.executable, "-c", CPP_EXTENSION, str(resources.INCLUDE), kernel.flags, *sources]
        said, cpu, wall = account(command, cwd=temporary, env=os.environ | {"PATH": path_with_ninja()})
    peak = int(said.split()[-1]) * 1024
    return Step(kernel.name, "cpp_extension, cpu", cpu, wall, peak, compiled=len(sources))


def path_with_ninja() -> str:
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
