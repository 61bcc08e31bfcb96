"""The template `multi_backend` for ROCm: torch's headers for HIP, and device code for more and more architectures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.building.costs import PROGRAM, Options, Step, account, build, fresh_cache, in_cache

from kernelworks.settings import cache_root
from kernelworks_build.toolchain.lock import LockSet

__all__ = ["hipified"]

NAME = "gfx"
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200")
HEADERS = "torch-rocm-2.11.0"
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


def hipified(root: Path, options: Options) -> Iterator[Step]:
    """Torch's headers for HIP, twice, and builds for more and more architectures, in a cache without either."""
    cache = fresh_cache(root, options, ("artifacts", *made(TREES)))
    trees("what the headers are made of", cache, *TREES)
    yield trees("headers for HIP, first", cache, HEADERS)
    yield trees("headers for HIP, again", cache, HEADERS)
    folder = root / "rotate"
    init = [PROGRAM, "init", "demo/rotate", "--template", "multi_backend", "--dir", str(folder)]
    subprocess.run(init, check=True, capture_output=True)
    asked = {"cold": ARCHS[:1], "1 arch": ARCHS[1:2], "2 archs": ARCHS[:2], "5 archs": ARCHS}
    for name, archs in asked.items():
        yield build(folder, NAME, f"rocm, {name}", cache, "--variant", "*-rocm*", "--arch", ",".join(archs))


def made(names: Iterable[str]) -> Iterator[str]:
    """Where the cache has the trees of the locks `names` that are made already."""
    locks = LockSet.load()
    places = (f"trees/{locks[name].digest}" for name in names)
    return (place for place in places if (cache_root() / place).is_dir())


def trees(step: str, cache: Path, *names: str) -> Step:
    """The step of that name that makes the trees of the locks `names`."""
    _, cpu, wall = account([sys.executable, "-c", MAKE_TREES, *names], env=in_cache(cache))
    return Step(NAME, step, cpu, wall)
