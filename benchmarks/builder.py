"""What builds cost: CPU seconds, memory and downloads, beside the same kernel built by torch's own `cpp_extension`.

    python benchmarks/builder.py [--kernel full|stable|gfx]... [--archs 8] [--matrix] [--from-nothing] [--json]

One kernel of the full ABI (`tests/builder/fixtures/scale`) and one of the stable ABI (the `stable_abi` template), from
a cache without results: cold, again, for one more torch, for one more arch, and after an edit of one file. CPU seconds
are user and system time of a command and of all that it waited for; memory is the peak of one translation unit with
its processes. The last column compares: a cold build with `cpp_extension`, which compiles the CPU variant with the
whole headers of one torch, and an edit with the compile of the edited file alone. `gfx` is the `multi_backend` template
for ROCm: torch's headers for HIP, which are made once, and device code for more and more architectures, whose host code
is made with the first.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelworks.settings import cache_root
from kernelworks_build import resources
from kernelworks_build.toolchain.lock import LockSet

PROGRAM = str(Path(sys.executable).with_name("kernel-build"))
FULL_ABI = Path(__file__).parents[1] / "tests" / "builder" / "fixtures" / "scale"
ARCHS = ("9.0", "10.0", "8.0", "12.0", "8.9", "8.6", "7.5", "11.0")
CPP_EXTENSION = """
import resource
import sys
from torch.utils.cpp_extension import load
include, flags, *sources = sys.argv[1:]
load("benchmark", sources, extra_include_paths=[include], extra_cflags=["-O3", "-DCPU_KERNEL", *flags.split()],
     build_directory=".", is_python_module=False)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

GFX_ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200")
TREES = ("host", "cpython", "python", "rocm-7.2", "sysroot", "tools", "torch-2.11.0")
MAKE_TREES = """
import sys
from kernelworks.settings import cache_root
from kernelworks_build.progress import SILENT
from kernelworks_build.sandbox import executor
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.store import TreeStore
materialise(sys.argv[1:], locks=LockSet.load(), store=TreeStore(cache_root() / "trees"), executor=executor("bwrap"),
            fetcher=Fetcher(cache_root(), Origins(), SILENT), progress=SILENT)
"""


@dataclass(frozen=True)
class Step:
    """What one command took.

    Attributes:
        cpu: CPU seconds of all processes.
        wall: Seconds.
        peak: Bytes of its largest unit.
        fetched: Bytes that were downloaded.
        compilers: CPU seconds of the units that were compiled, alone.
        compiled: How many these are.
        device: How many of them are device code.
        reused: Units that were compiled before.
        compared: With what and how, in words.
    """

    kernel: str
    name: str
    cpu: float
    wall: float
    peak: int = 0
    fetched: int = 0
    compilers: float = 0
    compiled: int = 0
    device: int = 0
    reused: int = 0
    compared: str = ""


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


def full_abi(root: Path) -> Kernel:
    folder = Path(shutil.copytree(FULL_ABI, root / "scale"))
    return Kernel(
        *("full ABI", folder, "torch213-*-cpu-*", "torch213-*-cu130-*", "torch215-*-cu130-*"),
        sources=("torch-ext/torch_binding.cpp", "cpu/scale.cpp"),
        flags="-std=c++20",
        edited="cpu/scale.cpp",
    )


def stable_abi(root: Path) -> Kernel:
    folder = root / "silu-and-mul"
    subprocess.run([PROGRAM, "init", "demo/silu-and-mul", "--dir", folder], check=True, capture_output=True)
    return Kernel(
        *("stable ABI", folder, "*-cpu-*", "*-cu130-*", None),
        sources=("torch-ext/torch_binding.cpp", "cpu/silu_and_mul.cpp"),
        flags="-std=c++20 -DTORCH_TARGET_VERSION=0x020b000000000000",
        edited="cpu/silu_and_mul.cpp",
    )


KERNELS: dict[str, Callable[[Path], Kernel]] = {"full": full_abi, "stable": stable_abi}
GFX = "gfx"


def gfx_steps(root: Path, cache: Path) -> Iterator[Step]:
    """Torch's headers for HIP, twice, and builds for more and more architectures, in a cache without either."""
    env = os.environ | {"KERNELWORKS_CACHE": str(cache)}

    def trees(name: str, *wanted: str) -> Step:
        _, cpu, wall = account([sys.executable, "-c", MAKE_TREES, *wanted], env=env)
        return Step(GFX, name, cpu, wall)

    trees("what the headers are made of", *TREES)
    yield trees("headers for HIP, first", "torch-rocm-2.11.0")
    yield trees("headers for HIP, again", "torch-rocm-2.11.0")
    folder = root / "rotate"
    init = [PROGRAM, "init", "demo/rotate", "--template", "multi_backend", "--dir", str(folder)]
    subprocess.run(init, check=True, capture_output=True)
    kernel = Kernel(GFX, folder, "", "", None, (), "", "")
    asked = {"cold": GFX_ARCHS[:1], "1 arch": GFX_ARCHS[1:2], "2 archs": GFX_ARCHS[:2], "5 archs": GFX_ARCHS}
    for name, archs in asked.items():
        yield measure(kernel, f"rocm, {name}", cache, "--variant", "*-rocm*", "--arch", ",".join(archs))


def digests(names: Iterable[str]) -> Iterator[str]:
    """The trees of the locks `names` that are made already."""
    locks = LockSet.load()
    return (locks[name].digest for name in names if (cache_root() / "trees" / locks[name].digest).is_dir())


def steps(kernel: Kernel, cache: Path, archs: int, *, matrix: bool) -> Iterator[Step]:
    """Every step, in a cache that holds no results yet."""

    def build(name: str, *variants: str, asked: int = 1) -> Step:
        chosen = [word for variant in variants for word in ("--variant", variant)]
        return measure(kernel, name, cache, *chosen, "--arch", ",".join(ARCHS[:asked]))

    torch = cpp_extension(kernel)
    cold = build("cold, cpu", kernel.cpu)
    yield replace(cold, compared=f"1/{torch.cpu / cold.cpu:.2f} of cpp_extension")
    yield torch
    yield build("cold, cuda, 1 arch", kernel.cuda)
    yield build("again, both", kernel.cpu, kernel.cuda)
    if kernel.another_torch:
        yield build("+1 torch, cuda", kernel.another_torch)
    yield build("+1 arch, cuda", kernel.cuda, asked=2)
    if archs > 2:
        yield build(f"{archs} archs, cuda", kernel.cuda, asked=archs)
    with (kernel.folder / kernel.edited).open("a") as file:
        file.write("\nint edited = 1;\n")
    edit = build(f"edit of {kernel.edited}", kernel.cpu)
    yield replace(edit, compared=f"{edit.cpu / edit.compilers:.2f}x the file alone")
    if matrix:
        yield build("matrix, what is left", "*-cpu-*", "*-cu130-*")
        yield build("matrix, unchanged", "*-cpu-*", "*-cu130-*")


def measure(kernel: Kernel, name: str, cache: Path, *arguments: str) -> Step:
    """Run `kernel-build build ARGUMENTS` and account for it."""
    held = downloads(cache)
    command = [PROGRAM, "build", str(kernel.folder), *arguments, "--json"]
    done, cpu, wall = account(command, env=os.environ | {"KERNELWORKS_CACHE": str(cache)})
    fresh = [variant for variant in json.loads(done)["variants"] if not variant["cached"]]
    units = [unit for variant in fresh for unit in variant["units"]]
    return Step(
        *(kernel.name, name, cpu, wall),
        peak=max((unit["max-rss-bytes"] for unit in units), default=0),
        fetched=downloads(cache) - held,
        compilers=sum(unit["cpu-seconds"] for unit in units),
        compiled=len(units),
        device=sum(unit["object"].startswith("device/") for unit in units),
        reused=sum(variant["units-cached"] for variant in fresh),
    )


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


def account(command: list[str], *, env: dict[str, str], cwd: str | None = None) -> tuple[str, float, float]:
    """What `command` prints, its CPU seconds and its wall seconds."""
    before, start = children(), time.monotonic()
    done = subprocess.run(command, env=env, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout, children() - before, time.monotonic() - start


def children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def downloads(cache: Path) -> int:
    return sum(path.stat().st_size for path in (cache / "artifacts").rglob("*") if path.is_file())


def table(found: list[Step]) -> Iterator[str]:
    """One line per step."""
    yield (
        f"{'kernel':<12}{'step':<28}{'CPU s':>7}{'wall s':>8}{'unit MB':>9}{'fetched MB':>12}{'compiled':>10}"
        f"{'device':>8}{'reused':>8}  compared"
    )
    for step in found:
        yield (
            f"{step.kernel:<12}{step.name:<28}{step.cpu:>7.1f}{step.wall:>8.1f}{step.peak / 1e6:>9.0f}"
            f"{step.fetched / 1e6:>12.1f}{step.compiled:>10}{step.device:>8}{step.reused:>8}  {step.compared}"
        )


def main() -> None:
    """Print the steps as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=[*KERNELS, GFX], action="append", help="only this one; may be given again")
    parser.add_argument("--archs", type=int, default=2, help="also so many archs, up to 8")
    parser.add_argument("--matrix", action="store_true", help="also every torch, for the CPU and for CUDA 13.0")
    parser.add_argument("--from-nothing", action="store_true", help="download the toolchains as well")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    for name in options.kernel or [*KERNELS, GFX]:
        with TemporaryDirectory() as temporary:
            root, cache = Path(temporary), Path(temporary) / "cache"
            shared = ("artifacts", *([f"trees/{digest}" for digest in digests(TREES)] if name == GFX else ["trees"]))
            for part in shared if not options.from_nothing else ():
                (cache / part).parent.mkdir(parents=True, exist_ok=True)
                (cache / part).symlink_to(cache_root() / part)
            asked = {"archs": options.archs, "matrix": options.matrix}
            for step in gfx_steps(root, cache) if name == GFX else steps(KERNELS[name](root), cache, **asked):
                print(f"{step.kernel}: {step.name}: {step.cpu:.1f} CPU s", file=sys.stderr)
                found.append(step)
    print(json.dumps([asdict(step) for step in found], indent=2) if options.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
