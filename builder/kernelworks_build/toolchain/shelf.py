"""How files lie in a mirror and are put there: `artifacts/<first two digits>/<name>`, named by their SHA-256."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kernelworks.model.digest import hash_bytes
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown

__all__ = ["excerpt_name", "holds", "place", "put", "read_excerpt"]


def place(name: str, root: str) -> str:
    """The URL of the file `name` in the mirror at the URL `root`."""
    return f"{root.rstrip('/')}/artifacts/{name[:2]}/{name}"


def excerpt_name(wheel: Artifact, wanted: re.Pattern[str]) -> str:
    """Name of the zip file of those files of `wheel` that are `wanted`, which it depends on."""
    return f"{wheel.sha256}.{hash_bytes(wanted.pattern.encode())[:8]}.zip"


def put(path: Path, name: str, root: str, remote: Remote) -> bool:
    """Copy the file at `path` as `name` into the mirror at the URL `root`; whether it was not there.

    Raises:
        RemoteError: The server refuses.
    """
    url = place(name, root)
    parts = urlsplit(url)
    if parts.scheme != "file":
        return remote.put(url, path)
    target = Path(url2pathname(parts.path))
    if target.is_file() and target.stat().st_size == path.stat().st_size:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{name}.part")
    shutil.copyfile(path, fresh)
    fresh.replace(target)
    return True


def holds(name: str, mirrors: Iterable[str]) -> bool:
    """Whether one of `mirrors` has the file `name`."""
    with Remote() as remote:
        for root in mirrors:
            with suppress(RemoteError), remote.open(place(name, root)):
                return True
    return False


def read_excerpt(name: str, mirrors: Iterable[str]) -> tuple[bytes, str] | None:
    """Content of the file `name`, and where it was found: the first of `mirrors` that has it."""
    with Remote() as remote:
        for root in mirrors:
            url = place(name, root)
            try:
                with remote.open(url) as body:
                    return b"".join(body.chunks), shown(url)
            except RemoteError:  # the next one may have it
                continue
    return None
