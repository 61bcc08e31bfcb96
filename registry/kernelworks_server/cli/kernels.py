"""Commands about what is published: yank, deprecate, rename, hide."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from kernelworks_server.cli.command import Said, group, on_registry
from kernelworks_server.rights import MACHINE
from kernelworks_server.services import Services

__all__ = ["commands"]

_KIND = "kernel"

commands = group()

RepoId = Annotated[str, typer.Argument(metavar="ORG/NAME")]


@commands.command()
@on_registry
def yank(
    registry: Services,
    repo_id: RepoId,
    revision: Annotated[str, typer.Argument(help="a version's branch such as `v3`, or a commit")],
    reason: Annotated[str, typer.Option(help="what clients tell who uses it")] = "",
    *,
    undo: Annotated[bool, typer.Option("--undo", help="let it be as good as any")] = False,
) -> Said:
    """Let clients pass over a commit, unless they ask for just that; nothing is deleted.

    The next commit on the same branch is not yanked.
    """
    repo = registry.repositories.get(MACHINE, _KIND, repo_id)
    if undo:
        commit = registry.repositories.unyank(MACHINE, repo, revision)
    else:
        commit = registry.repositories.yank(MACHINE, repo, revision, reason)
    text = f"`{revision}` of `{repo.repo_id}` is {'no longer ' if undo else ''}yanked (commit {commit})"
    return Said({"repo": repo.repo_id, "commit": commit, "yanked": not undo}, text)


@commands.command()
@on_registry
def deprecate(
    registry: Services,
    repo_id: RepoId,
    message: Annotated[str, typer.Option(help="what clients tell who uses it")] = "",
    successor: Annotated[str | None, typer.Option(metavar="ORG/OTHER", help="the kernel to use instead")] = None,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="let it be as good as any")] = False,
) -> Said:
    """Let clients warn of a kernel, whatever version they load."""
    repo = registry.repositories.get(MACHINE, _KIND, repo_id)
    if undo:
        registry.repositories.undeprecate(MACHINE, repo)
        return Said({"repo": repo.repo_id, "deprecated": None}, f"`{repo.repo_id}` is no longer deprecated")
    notice = registry.repositories.deprecate(MACHINE, repo, message, successor)
    text = f"`{repo.repo_id}` is deprecated: {notice.message}{f'; use `{successor}`' if successor else ''}"
    return Said({"repo": repo.repo_id, "deprecated": asdict(notice)}, text)


@commands.command()
@on_registry
def visibility(
    registry: Services,
    repo_id: RepoId,
    *,
    private: Annotated[bool, typer.Option("--private/--public", help="who reads it: people of its owner, or all")],
) -> Said:
    """Let only people of its owner read a kernel, or everybody."""
    repo = registry.repositories.get(MACHINE, _KIND, repo_id)
    registry.repositories.set_private(MACHINE, repo, private=private)
    return Said({"repo": repo.repo_id, "private": private}, f"`{repo.repo_id}` is {'private' if private else 'public'}")


@commands.command()
@on_registry
def rename(
    registry: Services, repo_id: RepoId, new_id: Annotated[str, typer.Argument(metavar="NEW_ORG/NEW_NAME")]
) -> Said:
    """Give a kernel another name or owner; clients that know the old name are sent on."""
    repo = registry.repositories.rename(MACHINE, _KIND, repo_id, new_id)
    return Said({"from": repo_id, "to": repo.repo_id}, f"`{repo_id}` is now `{repo.repo_id}`")
