"""The names that repositories had before: each leads to one repository, however often that was renamed since.

It does so until somebody calls another repository by that name.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, select

from kernelworks_server.database.engine import now, upsert
from kernelworks_server.database.tables import former_names, repos
from kernelworks_server.records import Repo

__all__ = ["add_former_name", "formerly", "take_name"]


def formerly(kind: str, repo_id: str) -> ColumnElement[bool]:
    """What is true of the repository that had this id, in any case."""
    return repos.c.id == select(former_names.c.repo).where(*_named(kind, repo_id)).scalar_subquery()


def take_name(connection: Connection, kind: str, repo_id: str) -> None:
    """Let this id be nobody's former one: a repository has it now."""
    connection.execute(delete(former_names).where(*_named(kind, repo_id)))


def add_former_name(connection: Connection, repo: Repo) -> None:
    """Let the id that `repo` had until now lead to it."""
    row = {"kind": repo.kind, "repo_key": repo.repo_id.lower(), "repo": repo.id, "created": now()}
    upsert(connection, former_names, [row])


def _named(kind: str, repo_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return former_names.c.kind == kind, former_names.c.repo_key == repo_id.lower()
