"""How many units are compiled at once."""

from __future__ import annotations

from math import inf

import pytest

from kernelworks_build.schedule import available_memory, cores, duration, parallel_units

GIB = 1 << 30


@pytest.mark.parametrize(
    ("requested", "units", "cores_", "memory", "expected"),
    [
        (None, [1 * GIB] * 9, 8, 64 * GIB, 8),
        (None, [3 * GIB] * 9, 8, 10 * GIB, 3),
        (None, [3 * GIB, 1 * GIB, 1 * GIB, 1 * GIB], 8, 5 * GIB, 3),
        (None, [1 * GIB, 1 * GIB, 1 * GIB, 3 * GIB], 8, 5 * GIB, 3),
        (2, [1 * GIB] * 9, 8, 64 * GIB, 2),
        (16, [1 * GIB] * 9, 8, 4 * GIB, 4),
        (None, [3 * GIB] * 2, 8, 1 * GIB, 1),
        (None, [], 8, 1 * GIB, 1),
    ],
)
def test_cores_and_memory_both_limit_and_one_always_runs(
    requested: int | None, units: list[int], cores_: int, memory: int, expected: int
) -> None:
    assert parallel_units(requested, unit_memory=units, cores=cores_, memory=memory) == expected


def test_this_machine_has_a_core_and_some_memory() -> None:
    assert cores() >= 1
    assert available_memory() > 1 << 20


@pytest.mark.parametrize(
    ("units", "at_once", "expected"),
    [([], 4, 0), ([3, 2, 2], 1, 7), ([2, 2, 3], 2, 4), ([1, 9], 8, 9), ([1, inf], 2, None)],
)
def test_how_long_units_take_is_known_from_what_each_took_or_not_at_all(
    units: list[float], at_once: int, expected: float | None
) -> None:
    assert duration(units, at_once) == expected
