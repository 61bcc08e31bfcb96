"""Many values in parts that one `IN` can have: databases bound them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

__all__ = ["batches"]

T = TypeVar("T")

_AT_ONCE = 500


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """The `values` in their order, some at a time."""
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))
