"""`kernel-build toolchain`: locked artifacts to and from a mirror."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kernelworks.settings import cache_root, shared_caches
from kernelworks_build.cli.console import JsonOption, live_progress, megabytes, note, print_json
from kernelworks_build.cli.project import ProjectArgument, open_locks
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Lock
from kernelworks_build.toolchain.mirror import Copied, pull, push
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.usage import in_use

group = typer.Typer(
    name="toolchain",
    help="Copy locked compilers and headers to and from a mirror.",
    add_completion=False,
    rich_markup_mode=None,
)

OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", help="Only this lock (host, torch-2.13.0); may be given again.", metavar="LOCK"),
]


@group.command("push")
def push_command(
    project: ProjectArgument = Path(),
    *,
    to: Annotated[str, typer.Option("--to", help="The mirror; a server must take HTTP PUT.", metavar="FOLDER|URL")],
    only: OnlyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy what the locks pin to a mirror. KERNELWORKS_ARTIFACTS names it to later builds."""
    _copy(push, to, project, only, as_json=as_json)


@group.command("pull")
def pull_command(
    project: ProjectArgument = Path(),
    *,
    source: Annotated[str, typer.Option("--from", help="The mirror.", metavar="FOLDER|URL")],
    only: OnlyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy what the locks pin from a mirror into the cache. Every byte is checked."""
    _copy(pull, source, project, only, as_json=as_json)


def _copy(
    copy: Callable[[Iterable[Lock], str, Fetcher], Copied],
    mirror: str,
    project: Path,
    only: Sequence[str] | None,
    *,
    as_json: bool,
) -> None:
    locks = open_locks(project)
    chosen = [locks[name] for name in only or sorted(locks.locks)]
    with live_progress() as progress, in_use(cache_root()):
        fetcher = Fetcher(cache_root(), Origins(), progress, shared=shared_caches())
        done = copy(chosen, mirror, fetcher)
    if as_json:
        print_json(
            {
                "mirror": mirror,
                "locks": [lock.name for lock in chosen],
                "artifacts": [
                    {"file": item.artifact.file, "name": item.name, "size": item.size, "copied": item.copied}
                    for item in done.items
                ],
                "left-out": [item.to_json() for item in done.left_out],
            }
        )
        return
    copied = [item.size for item in done.items if item.copied]
    note(f"{mirror}: {len(copied)} of {len(done.items)} artifacts copied, {megabytes(sum(copied))}")
    for item in done.left_out:
        users = ", ".join(f"`{lock.name}`" for lock in chosen if item in lock.artifacts)
        note(
            f"left out: `{item.file}` of {users}: Debian's non-free packages may not be passed on, so each machine"
            " fetches it itself, from what apt's configuration or KERNELWORKS_DEB_MIRROR names"
        )
