"""Which kernels a kernel loads, and which kernels load it, by their newest indexes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select

from kernelworks.model.variant import KernelDependency, Variant
from kernelworks_server.database.tables import former_names, needs, repos, shelf
from kernelworks_server.errors import RepoMoved, RepoNotFound
from kernelworks_server.listing import listed, repo_of
from kernelworks_server.records import Repo
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services

__all__ = ["Dependency", "dependants", "dependencies"]

_MOST = 50


@dataclass(frozen=True)
class Dependency:
    """A kernel that variants load, and its repository here, if there is one that the reader may know of."""

    needs: KernelDependency
    repo_id: str | None


def dependencies(services: Services, actor: Actor, variants: Iterable[Variant]) -> list[Dependency]:
    """The kernels that some of `variants` load, by id; at most 50."""
    found = {need for variant in variants for need in variant.kernel_depends}
    ordered = sorted(found, key=lambda need: (need.repo_id, need.version or 0, need.revision or ""))
    return [Dependency(need, _here(services, actor, need.repo_id)) for need in ordered[:_MOST]]


def _here(services: Services, actor: Actor, repo_id: str) -> str | None:
    try:
        return services.repositories.get(actor, "kernel", repo_id).repo_id
    except RepoMoved as moved:
        return moved.repo_id
    except RepoNotFound:
        return None


def dependants(services: Services, actor: Actor, repo: Repo) -> tuple[list[Repo], bool]:
    """(at most 50 kernels whose newest index depends on `repo`, by any name it had; whether there are more)."""
    former = select(former_names.c.repo_key).where(former_names.c.repo == repo.id)
    known = (needs.c.repo_key == repo.repo_id.lower()) | needs.c.repo_key.in_(former)
    query = (
        listed(actor, "kernel")
        .join(shelf, (shelf.c.repo == repos.c.id) & shelf.c.newest)
        .where(shelf.c.id.in_(select(needs.c.shelf).where(known)))
    )
    with services.database.read() as connection:
        found = [repo_of(row) for row in connection.execute(query.limit(_MOST + 1))]
    return found[:_MOST], len(found) > _MOST
