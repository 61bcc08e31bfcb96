"""The branches and tags of repositories."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from kernelworks_server import events, history
from kernelworks_server.config import Limits
from kernelworks_server.database import tables
from kernelworks_server.database.engine import Database
from kernelworks_server.errors import BadRequest, Conflict, RevisionNotFound, TooLarge
from kernelworks_server.records import DEFAULT_BRANCH, Ref, Repo, check_message, check_ref_name
from kernelworks_server.rights import Actor, require
from kernelworks_server.shelf import Shelf, settle

__all__ = ["Refs"]

_REFS = (
    select(tables.refs.c.name, tables.refs.c.kind, tables.refs.c.commit, tables.refs.c.message)
    .where(tables.refs.c.repo == bindparam("repo"))
    .order_by(tables.refs.c.name)
)


class Refs:
    """The branches and tags of all repositories of one registry."""

    def __init__(self, database: Database, limits: Limits, shelf: Shelf) -> None:
        self._database = database
        self._limits = limits
        self._shelf = shelf

    def refs(self, repo: Repo) -> list[Ref]:
        """Every branch and tag, by name."""
        with self._database.read() as connection:
            return [Ref(*row) for row in connection.execute(_REFS, {"repo": repo.id})]

    def create_branch(self, actor: Actor, repo: Repo, name: str, start: str | None) -> None:
        """A branch at the revision `start`, or at the head of `main`.

        Raises:
            BadRequest: Not a name that a branch can have.
            Conflict: A branch or tag of this name exists.
            RevisionNotFound: There is no `start`.
            TooLarge: There are too many already.
        """
        self._create(actor, repo, "branch", name, start or DEFAULT_BRANCH, "")

    def delete_branch(self, actor: Actor, repo: Repo, name: str) -> None:
        """Let this branch be gone; its commits stay readable by their ids.

        Raises:
            BadRequest: It is `main`.
            RevisionNotFound: There is none.
        """
        if name == DEFAULT_BRANCH:
            raise BadRequest(f"the branch `{DEFAULT_BRANCH}` cannot be deleted")
        self._delete(actor, repo, "branch", name)

    def create_tag(self, actor: Actor, repo: Repo, name: str, revision: str, message: str) -> None:
        """A tag at `revision`; raises as `create_branch` does."""
        self._create(actor, repo, "tag", name, revision, message)

    def delete_tag(self, actor: Actor, repo: Repo, name: str) -> None:
        """Let this tag be gone.

        Raises:
            RevisionNotFound: There is none.
        """
        self._delete(actor, repo, "tag", name)

    def _create(self, actor: Actor, repo: Repo, kind: str, name: str, start: str, message: str) -> None:
        require(actor, "write", repo, f"write `{repo.repo_id}`")
        check_ref_name(name)
        check_message(message, self._limits.message)
        with self._database.write() as connection:
            history.claim(connection, repo.id)
            commit = history.resolve(connection, repo, start)
            count = select(func.count()).where(tables.refs.c.repo == repo.id)
            if connection.execute(count).scalar_one() >= self._limits.refs:
                raise TooLarge(f"a repository has at most {self._limits.refs} branches and tags together")
            try:
                with connection.begin_nested():
                    values = {"repo": repo.id, "kind": kind, "name": name, "commit": commit, "message": message}
                    connection.execute(insert(tables.refs).values(**values))
            except IntegrityError as error:
                raise Conflict(f"`{repo.repo_id}` has a branch or tag `{name}` already", name=name) from error
            if kind == "branch":
                self._shelf.record(connection, repo.id, name, commit)
            events.record(connection, actor.name, f"{kind}.create", repo.repo_id, commit=commit, name=name)

    def _delete(self, actor: Actor, repo: Repo, kind: str, name: str) -> None:
        require(actor, "write", repo, f"write `{repo.repo_id}`")
        refs = tables.refs
        chosen = (refs.c.repo == repo.id) & (refs.c.kind == kind) & (refs.c.name == name)
        with self._database.write() as connection:
            history.claim(connection, repo.id)
            if connection.execute(delete(refs).where(chosen)).rowcount == 0:
                raise RevisionNotFound(f"`{repo.repo_id}` has no {kind} `{name}`", revision=name)
            settle(connection, repo.id)
            events.record(connection, actor.name, f"{kind}.delete", repo.repo_id, name=name)
