"""Kernels that a kernel uses: loaded before it is imported, and given to it while it is.

A kernel that is being imported is a step; a step within a step is a kernel that another one needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType
from typing import TypeVar

from kernelworks.errors import KernelworksError, LoadError
from kernelworks.model.variant import KernelDependency

__all__ = ["Step", "check_circle", "get_kernel_dep", "load_all", "taking"]

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """A kernel that is being imported: the name of its module, its repository id or folder, what it may ask for."""

    module: str
    subject: str
    dependencies: Mapping[str, ModuleType] = field(default_factory=dict)


_steps: ContextVar[tuple[Step, ...]] = ContextVar("kernelworks-steps", default=())


def get_kernel_dep(repo_id: str) -> ModuleType:
    """The module of the kernel `repo_id`, for a kernel that declares it in `kernel-depends` and is being imported.

    Raises:
        LoadError: No kernel is being imported, or not one that declares it.
    """
    steps = _steps.get()
    if not steps:
        raise LoadError(
            f"`{repo_id}` is asked for as a dependency, and no kernel is being imported",
            hint="a kernel calls `get_kernel_dep` at the top of a module; other code calls `get_kernel`",
            repo_id=repo_id,
        )
    step = steps[-1]
    if repo_id not in step.dependencies:
        declared = ", ".join(f"`{known}`" for known in step.dependencies) or "none"
        raise LoadError(
            f"`{step.subject}` asks for kernel `{repo_id}`, which it does not declare (it declares {declared})",
            hint="its publisher has to add it to `kernel-depends` in build.toml",
            subject=step.subject,
            repo_id=repo_id,
        )
    return step.dependencies[repo_id]


@contextmanager
def taking(step: Step) -> Iterator[None]:
    """While it lasts, `step` is the innermost one of this thread or task."""
    token = _steps.set((*_steps.get(), step))
    try:
        yield
    finally:
        _steps.reset(token)


def check_circle(module: str, subject: str) -> None:
    """Return if the kernel whose module is `module` is not being imported.

    Raises:
        LoadError: It is, by a step that the present one is within.
    """
    steps = _steps.get()
    begun = [position for position, step in enumerate(steps) if step.module == module]
    if begun:
        circle = [*(step.subject for step in steps[begun[0] :]), subject]
        way = " -> ".join(f"`{name}`" for name in circle)
        raise LoadError(f"a kernel loads itself while it is being imported: {way}", circle=circle)


def load_all(subject: str, needs: Iterable[KernelDependency], load: Callable[[KernelDependency], T]) -> dict[str, T]:
    """Repository id -> what `load` gives, of all that `subject` needs.

    Raises:
        KernelworksError: What `load` raises, and who needs it.
    """
    return {need.repo_id: _loaded(subject, need, load) for need in needs}


def _loaded(subject: str, need: KernelDependency, load: Callable[[KernelDependency], T]) -> T:
    try:
        return load(need)
    except KernelworksError as error:
        if "circle" not in error.context:  # that tells the whole way
            error.message = f"`{subject}` needs kernel `{need.repo_id}`: {error.message}"
        raise
