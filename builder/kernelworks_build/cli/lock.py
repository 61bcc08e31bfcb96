"""`kernel-build lock`: pin toolchains anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelworks.errors import UsageError
from kernelworks.settings import cache_root, shared_caches
from kernelworks_build.cli.console import (
    JsonOption,
    live_progress,
    megabytes,
    note,
    print_json,
)
from kernelworks_build.cli.project import LOCKS, ProjectArgument, open_locks
from kernelworks_build.matrix import Matrix
from kernelworks_build.sandbox import executor
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.relock import relock
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.usage import in_use
from kernelworks_build.writable import require_writable


def command(
    project: ProjectArgument = Path(),
    *,
    torch: Annotated[
        list[str] | None, typer.Option(help="A torch release (2.14.1); may be given again.", metavar="VERSION")
    ] = None,
    cuda: Annotated[
        list[str] | None, typer.Option(help="A CUDA toolkit (13.0); may be given again.", metavar="VERSION")
    ] = None,
    rocm: Annotated[
        list[str] | None, typer.Option(help="A ROCm release (7.2); may be given again.", metavar="VERSION")
    ] = None,
    cutlass: Annotated[
        list[str] | None, typer.Option(help="CUTLASS headers (3.8); may be given again.", metavar="VERSION")
    ] = None,
    tvm_ffi: Annotated[
        list[str] | None, typer.Option(help="tvm-ffi (0.1); may be given again.", metavar="VERSION")
    ] = None,
    host: Annotated[bool, typer.Option("--host", help="Compiler and tools, and with them the sysroot.")] = False,
    sysroot: Annotated[bool, typer.Option("--sysroot", help="The manylinux_2_28 sysroot.")] = False,
    python: Annotated[bool, typer.Option("--python", help="The headers of every Python.")] = False,
    cpython: Annotated[bool, typer.Option("--cpython", help="The Python that runs torch's hipify.")] = False,
    tools: Annotated[bool, typer.Option("--tools", help="cmake and ninja.")] = False,
    nix: Annotated[bool, typer.Option("--nix", help="What nix starts with: bubblewrap, busybox, Python.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help=f"Where they go; without it, PROJECT/{LOCKS}.", metavar="FOLDER")
    ] = None,
    sandbox: Annotated[str, typer.Option("--sandbox", help="bwrap, nix, or none.", metavar="NAME")] = "bwrap",
    as_json: JsonOption = False,
) -> None:
    """Pin the newest packages that fit. `build` prefers the lock files in PROJECT to the shipped ones."""
    flags = {"host": host, "sysroot": host or sysroot, "cpython": cpython, "tools": tools, "nix": nix}
    names = [name for name, wanted in flags.items() if wanted]
    names += Matrix.load().python.values() if python else ()
    versioned = {
        "cuda": cuda,
        "cutlass": cutlass,
        "rocm": rocm,
        "torch": torch,
        "torch-rocm": torch,
        "tvm-ffi": tvm_ffi,
    }
    names += [f"{what}-{version}" for what, versions in versioned.items() for version in versions or ()]
    if not names:
        raise UsageError(
            "nothing to lock is named",
            hint="name something, like `--torch 2.14.1` or `--tools`; `kernel-build lock --help` lists all that can be",
        )
    folder = out or project / LOCKS
    require_writable(folder)
    with live_progress() as progress, in_use(cache_root()):
        fetcher = Fetcher(cache_root(), Origins(), progress, shared=shared_caches())
        store = TreeStore(cache_root() / "trees", progress)
        runner = executor(sandbox, open_locks(project))
        locks = [
            relock(name, folder, store=store, fetcher=fetcher, executor=runner, progress=progress) for name in names
        ]
    if as_json:
        print_json({"folder": str(folder), "locks": [{"name": lock.name, "digest": lock.digest} for lock in locks]})
        return
    for lock in locks:
        size = sum(artifact.size for artifact in lock.artifacts)
        note(f"locked {lock.name}: {len(lock.artifacts)} artifacts, {megabytes(size)}, tree {lock.digest[:16]}")
