"""Importing a verified folder as `kernelworks.loaded.<id>_<digest>`: once per process, or without a trace.

The digest in the name, of all files that can be imported, lets two versions of a kernel live side by side, keeps a
kernel from replacing any other module, and lets equal kernels from two places be one. Python's own import machinery
does the rest (one import however many threads ask, relative imports, pickling): a finder tells it where kernels are.

A module can be imported by its name alone, as unpickling does: then `recall` finds the kernel in the cache.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from kernelworks.cache.recall import recalled, remember
from kernelworks.dependencies import Step, check_circle, load_all, taking
from kernelworks.errors import LoadError, VerifyError
from kernelworks.kernel import NAME_PATTERN, NAMESPACE, LoadedKernel, Origin, Plan, module_name
from kernelworks.loaders import Contents, ExtensionLoader, SourceLoader
from kernelworks.model.variant import KernelDependency, Variant

__all__ = ["get_loaded_kernels", "install", "load_variant"]

_PREFIX = f"{NAMESPACE}."
_NAME = re.compile(re.escape(_PREFIX) + NAME_PATTERN, re.ASCII)

_kernels: dict[str, LoadedKernel] = {}
_plan: ContextVar[Plan | None] = ContextVar("kernelworks-plan", default=None)


def get_loaded_kernels() -> tuple[LoadedKernel, ...]:
    """Every kernel that this process has loaded, in the order of loading."""
    return tuple(_kernels.values())


def load_variant(
    variant: Variant,
    origin: Origin,
    prepare: Callable[[], Path],
    load_dependency: Callable[[KernelDependency], ModuleType],
) -> ModuleType:
    """The module of `variant`, imported once per process however many threads ask.

    Args:
        variant: What to load.
        origin: Where it comes from, for messages and for `get_loaded_kernels`.
        prepare: Returns the folder with the verified files; called only where the module is not loaded yet.
        load_dependency: Loads a kernel that this one depends on; called after `prepare`, before anything is imported.

    Raises:
        LoadError: The kernel's code failed, or loads itself; `sys.modules` is as before. What it has registered with
            torch until then stays: nothing takes it back.
        VerifyError: A file has changed since it was verified, or is no shared object that can be opened.
    """
    name = module_name(variant)
    if kernel := _kernels.get(name):
        return kernel.module
    check_circle(name, origin.subject)
    plan = Plan(variant, origin, prepare, partial(load_all, origin.subject, variant.kernel_depends, load_dependency))
    token = _plan.set(plan)
    try:
        module = importlib.import_module(name)
    except RuntimeError as error:
        if type(error).__name__ != "_DeadlockError":  # it is nowhere public
            raise
        raise _waits_for_itself(origin) from error
    finally:
        _plan.reset(token)
    if name not in _kernels:  # half a module: of two threads that would wait for each other, one gets that
        raise _waits_for_itself(origin)
    return module


def install() -> None:
    """Let Python find kernels."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _KernelLoader(SourceLoader):
    """Executes the `__init__.py` of a kernel; afterwards the kernel is loaded, or there is no trace of it."""

    def __init__(self, fullname: str) -> None:
        super().__init__(fullname, "", Contents(Path(), {}, Step(fullname, fullname)))  # nothing, until it is needed

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, not executed yet; everything that it needs is here then.

        All of that is done under the import lock of this module alone, and not in the search for it: while Python
        searches, no other thread imports anything.
        """
        plan = _plan.get()
        if plan is None or module_name(plan.variant) != spec.name:
            plan = recalled(spec.name)
        subject = plan.origin.subject
        check_circle(spec.name, subject)
        _check_operators(spec.name, plan)
        with taking(Step(spec.name, subject)):
            folder = plan.prepare()
            step = Step(spec.name, subject, plan.dependencies())
        self._plan = plan
        self.contents = Contents.verified(folder, plan.variant.files, step)
        self.path = spec.origin = f"{folder}/__init__.py"
        spec.submodule_search_locations = [str(folder)]
        _finder.contents[spec.name] = self.contents
        return super().create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except BaseException as error:  # SystemExit included: a kernel must not end the process that loads it
            opened = _forget(self.name)
            if isinstance(error, KeyboardInterrupt | VerifyError):
                raise
            raise self._failure(error, opened) from error
        dependencies = self.contents.step.dependencies
        kernel = LoadedKernel(self._plan.origin, self._plan.variant, self.contents.folder, module, dependencies)
        _kernels[self.name] = kernel
        remember(self.name, kernel)

    def _failure(self, error: BaseException, opened: bool) -> LoadError:
        subject, variant = self._plan.origin.subject, self._plan.variant.name
        stays = "; its library stays open until this process ends, so try again in a new one" if opened else ""
        return LoadError(
            f"cannot import variant `{variant}` of `{subject}`: {type(error).__name__}: {error}",
            hint=f"the cause above has the kernel's own traceback{stays}",
            subject=subject,
            variant=variant,
            folder=str(self.contents.folder),
        )


class _Finder(MetaPathFinder):
    """Finds kernels, and the submodules of those in `contents` (full name -> files) only there."""

    def __init__(self) -> None:
        self.contents: dict[str, Contents] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        if target is not None:
            raise LoadError(
                f"`{fullname}` cannot be reloaded: what a kernel registers with torch stays until the process ends",
                hint="start a new process",
            )
        kernel, _, submodule = fullname.removeprefix(_PREFIX).partition(".")
        if submodule:
            return self._submodule(fullname, path or (), self.contents[f"{_PREFIX}{kernel}"])
        if not _NAME.fullmatch(fullname):
            return None
        loader = _KernelLoader(fullname)  # knows where the kernel is as soon as it is there
        return spec_from_file_location(fullname, "__init__.py", loader=loader, submodule_search_locations=[])

    def _submodule(self, fullname: str, path: Sequence[str], contents: Contents) -> ModuleSpec:
        loaders = (ExtensionLoader, EXTENSION_SUFFIXES), (SourceLoader, SOURCE_SUFFIXES)
        bound = [(partial(loader, contents=contents), suffixes) for loader, suffixes in loaders]
        for entry in path:
            if spec := FileFinder(entry, *bound).find_spec(fullname):  # type: ignore[arg-type]  # it only calls them
                return spec
        msg = f"no module named `{fullname}`"
        raise ModuleNotFoundError(msg, name=fullname)  # else a later finder would look with other loaders


_finder = _Finder()


def _waits_for_itself(origin: Origin) -> LoadError:
    return LoadError(f"`{origin.subject}` loads itself while it is being imported, by way of another thread")


def _check_operators(name: str, plan: Plan) -> None:
    """Two libraries that register one namespace of operators would end the process when the second is opened."""
    if not _has_library(plan.variant):
        return
    for other, kernel in _kernels.items():
        if other != name and kernel.variant.id == plan.variant.id and _has_library(kernel.variant):
            raise LoadError(
                f"`{plan.origin.subject}` (variant `{plan.variant.name}`) registers the operators"
                f" `torch.ops.{plan.variant.id}`, and so does `{kernel.origin.subject}` (variant"
                f" `{kernel.variant.name}`), which is loaded and another build",
                hint="load one of them per process",
                subject=plan.origin.subject,
                loaded=kernel.origin.subject,
            )


def _has_library(variant: Variant) -> bool:
    return any(entry.path.endswith(tuple(EXTENSION_SUFFIXES)) for entry in variant.files)


def _forget(name: str) -> bool:
    """Remove every trace of a kernel; whether a library of it was opened, which stays open."""
    _finder.contents.pop(name, None)
    _kernels.pop(name, None)
    names = [module for module in sys.modules if module == name or module.startswith(f"{name}.")]
    modules = [sys.modules.pop(module) for module in names]
    vars(sys.modules[NAMESPACE]).pop(name.removeprefix(_PREFIX), None)
    return any(isinstance(getattr(module, "__loader__", None), ExtensionFileLoader) for module in modules)
