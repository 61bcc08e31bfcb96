"""How many translation units are compiled at once: as many as cores *and* memory allow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

__all__ = ["available_memory", "cores", "parallel_units"]

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
