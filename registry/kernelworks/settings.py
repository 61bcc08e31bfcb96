"""The environment, read in one module and only when asked: nothing here runs at import."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kernelworks.errors import UsageError

__all__ = [
    "artifacts",
    "cache_layers",
    "cache_root",
    "debian_archives",
    "hub",
    "kernel_mapping_disabled",
    "library_path",
    "local_kernels",
    "lock",
    "offline",
    "package_indexes",
    "pip_options",
    "policy",
    "registries",
    "registry",
    "shared_caches",
    "sources",
    "token",
]

_TRUE = {"1", "on", "true", "yes"}
_HUB = "https://huggingface.co"


def cache_layers() -> tuple[Path, ...]:
    """The folders of `KERNELWORKS_CACHE`, separated by `os.pathsep`: the first is written, the others only read.

    Without it, `kernelworks` below the user's cache folder (XDG base directories).
    """
    if given := [path for path in os.environ.get("KERNELWORKS_CACHE", "").split(os.pathsep) if path]:
        return tuple(Path(path).expanduser().absolute() for path in given)
    xdg = os.environ.get("XDG_CACHE_HOME")
    return ((Path(xdg) if xdg else Path("~/.cache").expanduser()).absolute() / "kernelworks",)


def cache_root() -> Path:
    """The folder of the cache that is written: the first of `cache_layers`."""
    return cache_layers()[0]


def shared_caches() -> tuple[Path, ...]:
    """The folders of caches that are only read: the others of `cache_layers`."""
    return cache_layers()[1:]


def registries() -> tuple[str, ...]:
    """The registries that the environment names, the preferred first: `KERNELWORKS_REGISTRY`, else `HF_ENDPOINT`.

    Several are separated by blanks; a folder whose path has one is named as `file://` URL.
    """
    return tuple((os.environ.get("KERNELWORKS_REGISTRY") or os.environ.get("HF_ENDPOINT") or "").split())


def registry() -> str | None:
    """The first of `registries`, or None where the environment names none."""
    return next(iter(registries()), None)


def sources() -> tuple[str | None, ...]:
    """All that the environment says of where kernels come from, as it stands: what it means depends on nothing else."""
    get = os.environ.get  # a variable that is not set costs microseconds: none is asked for in vain
    return get("KERNELWORKS_LOCK"), get("LOCAL_KERNELS"), get("KERNELWORKS_REGISTRY") or get("HF_ENDPOINT")


def hub() -> str:
    """The endpoint that huggingface_hub talks to: `HF_ENDPOINT`, else the public Hub."""
    return os.environ.get("HF_ENDPOINT") or _HUB


def token() -> str | None:
    """The token that huggingface_hub would find: `HF_TOKEN`, else the file that `hf auth login` writes."""
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").lower() in _TRUE:
        return None
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if given := os.environ.get(name, "").strip():
            return given
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or os.path.join(cache, "huggingface")  # noqa: PTH118  # of texts, not yet a path
    file = os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token")  # noqa: PTH118
    try:
        return Path(os.path.expandvars(file)).expanduser().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def policy() -> Path | None:
    """`KERNELWORKS_POLICY`, else `kernelworks/policy.json` below the user's settings, if it is there."""
    if given := os.environ.get("KERNELWORKS_POLICY"):
        return Path(given).expanduser().absolute()
    xdg = os.environ.get("XDG_CONFIG_HOME")
    usual = (Path(xdg) if xdg else Path("~/.config").expanduser()).absolute() / "kernelworks" / "policy.json"
    return usual if usual.exists() else None


def lock() -> Path | None:
    """`KERNELWORKS_LOCK`: the lock file that names the commits of this process, or the folder that it is in."""
    given = os.environ.get("KERNELWORKS_LOCK")
    return Path(given).expanduser().absolute() if given else None


def offline() -> bool:
    """Whether `KERNELWORKS_OFFLINE` or `HF_HUB_OFFLINE` forbids the network."""
    return any(os.environ.get(name, "").lower() in _TRUE for name in ("KERNELWORKS_OFFLINE", "HF_HUB_OFFLINE"))


def kernel_mapping_disabled() -> bool:
    """Whether `DISABLE_KERNEL_MAPPING` keeps kernels out of the layers of models."""
    return os.environ.get("DISABLE_KERNEL_MAPPING", "").lower() in _TRUE


def package_indexes() -> tuple[str, ...]:
    """`KERNELWORKS_PYPI_INDEX`: simple indexes, separated by spaces."""
    return tuple(os.environ.get("KERNELWORKS_PYPI_INDEX", "").split())


def artifacts() -> tuple[str, ...]:
    """`KERNELWORKS_ARTIFACTS`: mirrors of locked artifacts, folders or URLs, separated by spaces."""
    return tuple(os.environ.get("KERNELWORKS_ARTIFACTS", "").split())


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


def library_path() -> tuple[Path, ...]:
    """`LD_LIBRARY_PATH`: where the dynamic linker looks first (ld.so(8))."""
    return tuple(map(Path, filter(None, re.split("[:;]", os.environ.get("LD_LIBRARY_PATH", "")))))


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
