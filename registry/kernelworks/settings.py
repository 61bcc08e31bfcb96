"""The environment, read in one module and only when asked: nothing here runs at import."""

from __future__ import annotations

import os
from pathlib import Path

from kernelworks.errors import UsageError

__all__ = ["cache_root", "debian_archives", "local_kernels", "offline", "package_indexes", "pip_options", "registry"]

_TRUE = {"1", "on", "true", "yes"}


def cache_root() -> Path:
    """`KERNELWORKS_CACHE`, else `kernelworks` below the user's cache folder (XDG base directories)."""
    if given := os.environ.get("KERNELWORKS_CACHE"):
        return Path(given).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path("~/.cache").expanduser()).absolute() / "kernelworks"


def registry() -> str | None:
    """`KERNELWORKS_REGISTRY`, else `HF_ENDPOINT`, else None: the Hub."""
    return os.environ.get("KERNELWORKS_REGISTRY") or os.environ.get("HF_ENDPOINT") or None


def offline() -> bool:
    """Whether `KERNELWORKS_OFFLINE` or `HF_HUB_OFFLINE` forbids the network."""
    return any(os.environ.get(name, "").lower() in _TRUE for name in ("KERNELWORKS_OFFLINE", "HF_HUB_OFFLINE"))


def package_indexes() -> tuple[str, ...]:
    """`KERNELWORKS_PYPI_INDEX`: simple indexes, separated by spaces."""
    return tuple(os.environ.get("KERNELWORKS_PYPI_INDEX", "").split())


def debian_archives() -> tuple[str, ...]:
    """`KERNELWORKS_DEB_MIRROR`: roots of Debian archives, separated by spaces."""
    return tuple(os.environ.get("KERNELWORKS_DEB_MIRROR", "").split())


def pip_options() -> dict[str, str]:
    """Options of pip by name (`index-url`) that its own variables (`PIP_INDEX_URL`) set."""
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("PIP_") and value
    }


def local_kernels() -> dict[str, Path]:
    """`LOCAL_KERNELS`, `repo=path` entries separated by `os.pathsep`, as repo id -> folder.

    Raises:
        UsageError: An entry without `=`.
    """
    found = {}
    for entry in filter(None, os.environ.get("LOCAL_KERNELS", "").split(os.pathsep)):
        repo_id, sign, path = entry.partition("=")
        if not sign or not path:
            raise UsageError(
                f"`{entry}` in LOCAL_KERNELS is not `org/name=folder`",
                hint=f"separate several entries by `{os.pathsep}`",
                entry=entry,
            )
        found[repo_id] = Path(path).expanduser().absolute()
    return found
