"""What a step of the benchmark of builds is, and how one is taken: CPU seconds, memory and downloads of a command."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelworks.settings import cache_root

__all__ = ["PROGRAM", "Options", "Step", "account", "build", "fresh_cache", "in_cache", "table"]

PROGRAM = str(Path(sys.executable).with_name("kernel-build"))


@dataclass(frozen=True)
class Options:
    """What is asked for besides.

    Attributes:
        archs: Also so many archs.
        matrix: Also every torch.
        from_nothing: Whether the toolchains are downloaded as well.
    """

    archs: int
    matrix: bool
    from_nothing: bool


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


def fresh_cache(root: Path, options: Options, shared: Iterable[str]) -> Path:
    """A cache in `root` without results, which has `shared` of this machine's cache unless nothing is to be there."""
    cache = root / "cache"
    for part in shared if not options.from_nothing else ():
        (cache / part).parent.mkdir(parents=True, exist_ok=True)
        (cache / part).symlink_to(cache_root() / part)
    return cache


def in_cache(cache: Path) -> dict[str, str]:
    """The environment of a command that takes `cache` for its own."""
    return os.environ | {"KERNELWORKS_CACHE": str(cache)}


def build(folder: Path, kernel: str, name: str, cache: Path, *arguments: str) -> Step:
    """The step `name` of `kernel`, in `folder`: `kernel-build build ARGUMENTS`."""
    held = downloads(cache)
    done, cpu, wall = account([PROGRAM, "build", str(folder), *arguments, "--json"], env=in_cache(cache))
    fresh = [variant for variant in json.loads(done)["variants"] if not variant["cached"]]
    units = [unit for variant in fresh for unit in variant["units"]]
    return Step(
        kernel,
        name,
        cpu,
        wall,
        peak=max((unit["max-rss-bytes"] for unit in units), default=0),
        fetched=downloads(cache) - held,
        compilers=sum(unit["cpu-seconds"] for unit in units),
        compiled=len(units),
        device=sum(unit["object"].startswith("device/") for unit in units),
        reused=sum(variant["units-cached"] for variant in fresh),
    )


def account(command: Sequence[str], *, env: dict[str, str], cwd: str | None = None) -> tuple[str, float, float]:
    """What `command` prints, its CPU seconds and its wall seconds."""
    before, start = children(), time.monotonic()
    done = subprocess.run(command, env=env, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout, children() - before, time.monotonic() - start


def children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def downloads(cache: Path) -> int:
    return sum(path.stat().st_size for path in (cache / "artifacts").rglob("*") if path.is_file())


def table(found: Iterable[Step]) -> Iterator[str]:
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
