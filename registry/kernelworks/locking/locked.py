"""`get_locked_kernel` and `load_kernel`: what a lock file names, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelworks import settings
from kernelworks.api import load_from
from kernelworks.arguments import agent_text, check_arguments
from kernelworks.lockfile import Lock, process_lock
from kernelworks.locking.shipping import calling_package, shipped_lock
from kernelworks.offers import Request
from kernelworks.sources import source_of

__all__ = ["get_locked_kernel", "load_kernel"]

_modules: dict[tuple[Any, ...], ModuleType] = {}
"""What was given, by all that it depends on, as `get_kernel` keeps it."""


def get_locked_kernel(
    repo_id: str,
    *,
    lockfile: str | os.PathLike[str] | None = None,
    backend: str | None = None,
    trust_remote_code: bool = False,
    user_agent: str | Mapping[str, str] | None = None,
) -> ModuleType:
    """The module of the kernel at the commit that a lock file names; what is not here is fetched.

    Args:
        repo_id: `org/name`. An entry of `LOCAL_KERNELS` for it takes the place of everything else.
        lockfile: The file, or the folder that it is in; without it, the one that `KERNELWORKS_LOCK` names, else the
            one that was installed with the calling package.
        backend: As for `kernelworks.get_kernel`.
        trust_remote_code: As for `kernelworks.get_kernel`.
        user_agent: As for `kernelworks.get_kernel`.

    Raises:
        LockError: There is no lock file, it is malformed or lacks this kernel, or one that this kernel needs.
        VerifyError: A variant is not the one that was locked; nothing was imported.
        KernelworksError: As `kernelworks.get_kernel`.
    """
    check_arguments(repo_id, None, None, backend, trust_remote_code)
    return _load(Request(repo_id, consent=trust_remote_code, agent=agent_text(user_agent)), lockfile, backend)


def load_kernel(
    repo_id: str, *, lockfile: str | os.PathLike[str] | None = None, backend: str | None = None
) -> ModuleType:
    """As `get_locked_kernel`, of what is on this machine: no server is asked.

    It asks for no consent: without one, nothing has come onto this machine.

    Raises:
        TransportError: Something is not on this machine; it says what.
        KernelworksError: As `get_locked_kernel`.
    """
    check_arguments(repo_id, None, None, backend)
    return _load(Request(repo_id, consent=True, offline=True), lockfile, backend)


def _load(request: Request, lockfile: str | os.PathLike[str] | None, backend: str | None) -> ModuleType:
    place = calling_package() if lockfile is None else Path(lockfile).absolute()
    key = (request.repo_id, place, backend, settings.sources())
    if key not in _modules:
        lock = _lock(place)
        _modules[key] = load_from(request, source_of(request.repo_id, lock=lock), backend)
    return _modules[key]


def _lock(place: Path | str) -> Lock | None:
    """The lock at a path, or the one for a package; None for that of the environment."""
    if isinstance(place, Path):
        return process_lock(place)
    return None if settings.lock() else shipped_lock(place)
