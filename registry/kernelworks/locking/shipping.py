"""How a lock file travels with a distribution: how it gets in, and how the code in there finds it.

Beside the package's `__init__.py`, as a file of the package, it is found whatever built the wheel. Builds by setuptools
put it into the distribution's metadata by themselves where this package is installed.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

from kernelworks.errors import LockError
from kernelworks.lockfile import LOCK_NAME, LOCK_NAMES, Lock, parse_lock, read_lock

__all__ = ["calling_package", "shipped_lock", "write_metadata"]

_OWN = __name__.partition(".")[0]


def calling_package() -> str:
    """The top-level package of the code that called into this one."""
    frame = sys._getframe()  # noqa: SLF001  # `inspect.stack` reads every source file on its way
    while frame.f_back and _package(frame.f_globals) == _OWN:
        frame = frame.f_back
    return _package(frame.f_globals)


@cache
def shipped_lock(package: str) -> Lock:
    """The lock that was installed with the top-level package `package`.

    Raises:
        LockError: There is none, or it is malformed.
    """
    file = getattr(sys.modules.get(package), "__file__", None)
    if file is not None and (beside := Path(file).with_name(LOCK_NAME)).is_file():
        return read_lock(beside)
    from importlib.metadata import distributions  # noqa: PLC0415  # it costs more than this whole package

    for distribution in distributions():
        for name in LOCK_NAMES:
            text = distribution.read_text(name)
            if text is not None and package in _packages(distribution):
                return parse_lock(text.encode(), f"{name} of {distribution.metadata['Name']}")
    raise LockError(
        f"no lock file is installed with `{package}`",
        hint="name a file by `lockfile=` or KERNELWORKS_LOCK, or run `kernelworks lock` in the project of that package"
        " and install it again",
        package=package,
    )


def write_metadata(command: Any, basename: str, filename: str) -> None:
    """Put the lock file of the project in the current folder into its metadata: an `egg_info` writer of setuptools.

    It runs in the builds of all projects, and fails none: what it cannot do is a warning.
    """
    from kernelworks.locking.project import asks_for_kernels  # noqa: PLC0415  # builds alone need it

    path = Path.cwd() / LOCK_NAME
    try:
        if not asks_for_kernels(path.parent):
            return
    except LockError as error:
        command.warn(str(error))
        return
    if not path.is_file():
        command.warn(f"`{path}` does not exist: run `kernelworks lock`")
    command.write_or_delete_file(basename, filename, path.read_text("utf-8") if path.is_file() else None)


def _package(names: dict[str, Any]) -> str:
    return (names.get("__package__") or str(names.get("__name__"))).partition(".")[0]


def _packages(distribution: Any) -> set[str]:
    """The top-level packages of `distribution`."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    return set(listed) or {file.parts[0].removesuffix(".py") for file in distribution.files or ()}
