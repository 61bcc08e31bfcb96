"""Several registries: the first that has the repository answers.

One that cannot be read is an error and never a reason to ask the next: whoever can keep a registry from answering must
not choose what is loaded instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from kernelworks.errors import UnknownRepositoryError
from kernelworks.transport import Transport

__all__ = ["first_having"]

T = TypeVar("T")


def first_having(repo_id: str, transports: Iterable[Transport], ask: Callable[[Transport], T]) -> T:
    """What `ask` returns of the first of `transports` that has the repository `repo_id`.

    Raises:
        UnknownRepositoryError: None has it.
        KernelworksError: What `ask` raises besides.
    """
    absent = []
    for transport in transports:
        try:
            return ask(transport)
        except UnknownRepositoryError as error:  # noqa: PERF203  # asking costs more
            absent.append(error)
    if len(absent) == 1:
        raise absent[0]
    raise UnknownRepositoryError(
        f"no registry has repository `{repo_id}`: {'; '.join(error.message for error in absent)}",
        hint=absent[0].hint,
        repo_id=repo_id,
    )
