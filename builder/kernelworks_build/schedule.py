"""How many translation units are compiled at once, as many as cores *and* memory allow, and how long that takes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from heapq import heapreplace
from itertools import accumulate
from math import inf
from pathlib import Path

__all__ = ["available_memory", "cores", "duration", "parallel_units"]

_CGROUP = Path("/sys/fs/cgroup")


def parallel_units(requested: int | None, *, unit_memory: Sequence[int], cores: int, memory: int) -> int:
    """Units at once: `requested` or the number of cores, but no more than fit into memory, and at least one.

    So many of the largest fit together; which of them really meet is then all the same.

    Args:
        requested: What the user asked for, or None.
        unit_memory: Peak bytes of each unit.
        cores: Cores of the machine.
        memory: Bytes that are free.
    """
    largest = accumulate(sorted(unit_memory, reverse=True))
    fitting = sum(1 for together in largest if together <= memory)
    return max(1, min(requested or cores, fitting))


def duration(cpu_seconds: Iterable[float], at_once: int) -> float | None:
    """Seconds for units that need `cpu_seconds` each, `at_once` at a time; None where one is infinite: unknown."""
    busy = [0.0] * at_once
    for seconds in sorted(cpu_seconds, reverse=True):  # as they are compiled: the longest first
        heapreplace(busy, busy[0] + seconds)
    return max(busy) if max(busy) < inf else None


def available_memory() -> int:
    """Bytes that can be used without swapping: the kernel's estimate, or less where a control group (v2) says so."""
    with Path("/proc/meminfo").open(encoding="ascii") as lines:
        facts = dict(line.split(":", 1) for line in lines)
    free = int(facts["MemAvailable"].split()[0]) * 1024
    limit, used = (_cgroup(name) for name in ("memory.max", "memory.current"))
    return free if limit is None or used is None else min(free, limit - used)


def _cgroup(name: str) -> int | None:
    try:
        return int((_CGROUP / name).read_text())
    except (OSError, ValueError):  # no such file, or `max`
        return None


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))
