"""Properties that are computed once.

Those of `functools` hold, before Python 3.12, one lock for all instances: one request would wait for another's queries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["once"]

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801  # a decorator, named as `property` is
    """A property that an instance computes when it is first asked for, and keeps; an instance is of one thread."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | once[T]:
        """The value, which from now on is an attribute of the instance."""
        if instance is None:
            return self
        value = self._compute(instance)
        vars(instance)[self._name] = value
        return value
