"""Which repositories a list shows to whom: the conditions that every list has in common."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, Select, select

from kernelworks_server.database.engine import moment
from kernelworks_server.database.tables import accounts, repos
from kernelworks_server.records import Repo
from kernelworks_server.rights import Actor, readable_owners

__all__ = ["listed", "repo_of"]


def listed(
    actor: Actor, kind: str, *, text: str = "", author: str | None = None, after: str | None = None
) -> Select[Any]:
    """The rows of `repos` that `actor` may read, by id.

    Args:
        actor: Who asks.
        kind: `kernel` or `model`.
        text: What the id must contain, in any case.
        author: Whose they must be, in any case.
        after: The `repo_id` that the last page ended with.
    """
    query = select(repos).join(accounts, accounts.c.id == repos.c.owner).where(repos.c.kind == kind)
    if after:
        query = query.where(repos.c.repo_key > after.lower())
    if text:
        query = query.where(repos.c.repo_key.contains(text.lower(), autoescape=True))
    if author is not None:
        query = query.where(accounts.c.name_key == author.lower())
    if not actor.operates:
        query = query.where(repos.c.private.is_(False) | accounts.c.name.in_(sorted(readable_owners(actor))))
    return query.order_by(repos.c.repo_key)


def repo_of(row: Row[Any]) -> Repo:
    """What a row with the columns of `repos` says."""
    owner, name = row.repo_id.split("/")
    return Repo(row.id, row.kind, owner, name, row.private, moment(row.created), moment(row.updated))
