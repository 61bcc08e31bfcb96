"""The torch SDK of a release: headers and empty libraries to build against, and what the real ones export.

The headers are cut out of the CUDA wheel by range requests. The libraries are empty but for their SONAME, as
torch's exports have no versions and a link needs no more. The list of what is exported lies beside the lock.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from kernelworks_build.action import Executor, Tree
from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.bootstrap import run_in_host
from kernelworks_build.toolchain.cut import Member, cut, cut_whole
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Lock, symbol_list_name, torch_lock
from kernelworks_build.toolchain.pin import wheel as pin_wheel
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.symbol_list import exported, write_symbols
from kernelworks_build.toolchain.tree import FileEntry, digest_of, write

__all__ = ["HEADERS", "LIBRARIES", "build_torch", "lock_torch", "make_stubs"]

LIBRARIES = ("c10", "c10_cuda", "torch", "torch_cpu", "torch_cuda", "torch_python")
"""Libraries of torch that the tree has stubs of, below `lib/`, and whose exports are listed."""

_PACKAGE = "torch/"
HEADERS = re.compile(f"{_PACKAGE}include/.+")
"""The files of the wheel that a build needs."""

_WHEEL_SUFFIX = "-cp312-cp312-manylinux_2_28_x86_64.whl"  # headers are the same in the wheel of every Python

_MAKE_STUBS = """
mkdir lib
for name; do
  gcc-12 -shared -nostdlib -Wl,-soname,"lib$name.so" -Wl,--build-id=none -Wl,-s \
    -x assembler /dev/null -o "lib/lib$name.so"
done
"""


def build_torch(into: Path, lock: Lock, *, fetcher: Fetcher, host: Tree, executor: Executor) -> None:
    """Make `include/` and `lib/` in the empty folder `into`, out of the one wheel of `lock`.

    Raises:
        ToolchainError: The wheel cannot be had, is damaged, or is not that of the lock.
        SandboxError: The executor cannot work here.
    """
    (wheel,) = lock.artifacts
    headers, unproved = cut(wheel, HEADERS, fetcher, relock=lock.relock)
    _assemble(into, headers, host, executor)
    if unproved and (got := digest_of(into)) != lock.digest:
        raise ToolchainError(
            f"what `{unproved}` serves as `{wheel.file}` is not what was locked: the tree made of its headers has the"
            f" digest `{got}`, the lock says `{lock.digest}`",
            hint="an origin, or something on the way, changes files: KERNELWORKS_PYPI_INDEX names another; if all say"
            f" the same, this builder makes another tree: `{lock.relock}` pins it anew",
            file=wheel.file,
            url=unproved,
            expected=lock.digest,
            got=got,
        )


def _assemble(into: Path, headers: Iterable[Member], host: Tree, executor: Executor) -> None:
    entries = (FileEntry(name.removeprefix(_PACKAGE), False, data) for name, data in headers)
    write(into, entries, "the torch wheel")
    make_stubs(LIBRARIES, into, host=host, executor=executor)


def make_stubs(libraries: Iterable[str], into: Path, *, host: Tree, executor: Executor) -> None:
    """Make `lib/` in the folder `into`, with a library of each name that is empty but for its SONAME."""
    run_in_host(("/usr/bin/sh", "-euc", _MAKE_STUBS, "stubs", *libraries), into, host=host, executor=executor)


def lock_torch(
    release: str, folder: Path, *, store: TreeStore, fetcher: Fetcher, host: Tree, executor: Executor
) -> Lock:
    """The lock of torch `release`, whose symbol list is written into `folder`.

    Downloads the whole wheel once, which proves its SHA-256 and with it the digest of what is cut out of it.

    Raises:
        ToolchainError: No index has the wheel.
        SandboxError: The executor cannot work here.
    """
    wheel = pin_wheel("torch", f"=={release}", fetcher.origins, lambda name: name.endswith(_WHEEL_SUFFIX))
    path = fetcher.fetch([wheel])[wheel]
    headers = cut_whole(wheel, path, HEADERS, fetcher)
    tree = store.add(lambda into: _assemble(into, headers, host, executor))
    lock = Lock(torch_lock(release), "torch", tree.digest, (wheel,))
    write_symbols(folder / symbol_list_name(lock.name), _exported_by_wheel(path))
    return lock


def _exported_by_wheel(path: Path) -> set[str]:
    names: set[str] = set()
    with zipfile.ZipFile(path) as archive:
        for library in LIBRARIES:
            with archive.open(f"{_PACKAGE}lib/lib{library}.so") as member, tempfile.TemporaryFile() as file:
                shutil.copyfileobj(member, file, 1 << 20)
                names |= exported(file)
    return names
