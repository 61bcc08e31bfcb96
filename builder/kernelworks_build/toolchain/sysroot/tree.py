"""How the sysroot's tree is made: of the host tree's headers, the symbol lists and a few files of this package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelworks_build.action import Executor, Mount, Tree
from kernelworks_build.toolchain.bootstrap import run_in_host
from kernelworks_build.toolchain.lock import Lock
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.sysroot import ROOT
from kernelworks_build.toolchain.sysroot.symbols import LIBRARIES, assembler, read_symbols, version_script
from kernelworks_build.toolchain.tree import FileEntry, digest_of, write

__all__ = ["build_sysroot", "lock_sysroot", "sources"]

_SOURCES = "/src"
_C_LIBRARY = "/usr/share/kernelworks/libc6-dev"  # where the host tree keeps it, out of every compiler's sight


def sources() -> dict[str, str]:
    """What the build script works on, by file name: C files, linker scripts, itself; two per stub library."""
    found = {item.name: item.read_text(encoding="utf-8") for item in files(__package__).joinpath("files").iterdir()}
    for soname in LIBRARIES:
        symbols = read_symbols(soname)
        found |= {f"{soname}.s": assembler(symbols), f"{soname}.map": version_script(symbols)}
    return found


def build_sysroot(into: Path, *, host: Tree, executor: Executor) -> None:
    """Make the sysroot in the empty folder `into`, of nothing but the host tree and this package's data.

    Raises:
        ToolchainError: The host tree lacks something.
        SandboxError: The executor cannot work here.
    """
    with TemporaryDirectory(prefix="kernelworks-") as folder:
        tree = Path(folder, "sources")
        write(
            tree,
            (FileEntry(name, False, text.encode()) for name, text in sources().items()),
            "the sysroot's sources",
        )
        mount = Mount(_SOURCES, Tree(digest_of(tree), tree))
        argv = ("/usr/bin/sh", "-eu", f"{_SOURCES}/build.sh", _C_LIBRARY, ROOT)
        run_in_host(argv, into, mount, host=host, executor=executor)


def lock_sysroot(*, store: TreeStore, host: Tree, executor: Executor) -> Lock:
    """The lock of the sysroot that `host` gives: no artifacts of its own, only the digest.

    Raises:
        ToolchainError: The host tree lacks something.
        SandboxError: The executor cannot work here.
    """
    tree = store.add(lambda into: build_sysroot(into, host=host, executor=executor))
    return Lock("sysroot", "sysroot", tree.digest, ())
