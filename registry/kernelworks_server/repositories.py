"""Which repositories there are, what they are called, and who may read them; what is in them is in rooms of its own."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from kernelworks.model.digest import hash_bytes
from kernelworks_server import events, history, names, trees
from kernelworks_server.blobs import Blobs
from kernelworks_server.committing import Committing
from kernelworks_server.config import Limits
from kernelworks_server.contents import Contents
from kernelworks_server.database import tables
from kernelworks_server.database.engine import Database, now, upsert
from kernelworks_server.errors import Conflict, NotFound, RepoMoved, RepoNotFound
from kernelworks_server.listing import listed, repo_of
from kernelworks_server.notices import Notices
from kernelworks_server.records import (
    DEFAULT_BRANCH,
    Repo,
    Revision,
    check_kind,
    split_repo_id,
)
from kernelworks_server.refs import Refs
from kernelworks_server.revisions import find_revision
from kernelworks_server.rights import Action, Actor, may, require
from kernelworks_server.shelf import Shelf
from kernelworks_server.uploads import Uploads

__all__ = ["Repositories"]

_NAMED = select(tables.repos).where(
    tables.repos.c.kind == bindparam("kind"), tables.repos.c.repo_key == bindparam("key")
)


class Repositories:
    """All repositories of one registry.

    What is done with one of them is a method of the room that knows it, and hangs here by the same name.
    """

    def __init__(self, database: Database, blobs: Blobs, limits: Limits, shelf: Shelf) -> None:
        self._database = database
        self._limits = limits
        self._shelf = shelf

        refs = Refs(database, limits, shelf)
        self.refs = refs.refs
        self.create_branch, self.delete_branch = refs.create_branch, refs.delete_branch
        self.create_tag, self.delete_tag = refs.create_tag, refs.delete_tag

        contents = Contents(database, limits)
        self.resolve_revision = contents.resolve_revision
        self.commit_info, self.commits = contents.commit_info, contents.commits
        self.tree, self.entry, self.paths_info = contents.tree, contents.entry, contents.paths_info

        uploads = Uploads(database, blobs)
        self.receive, self.held = uploads.receive, uploads.held
        self.receive_xorb, self.xorb = uploads.receive_xorb, uploads.xorb
        self.commit = Committing(database, blobs, limits, contents, uploads, shelf).commit

        notices = Notices(database)
        self.yanks, self.notice, self.remarks = notices.yanks, notices.notice, notices.remarks
        self.yank, self.unyank = notices.yank, notices.unyank
        self.deprecate, self.undeprecate = notices.deprecate, notices.undeprecate

    def create(self, actor: Actor, kind: str, repo_id: str, *, private: bool) -> Repo:
        """A new repository with an empty first commit on `main`; it takes its name from one that had it before.

        Raises:
            BadRequest: Not a kind or an id that a repository can have.
            Conflict: It exists.
            NotFound: Its owner does not.
            SignInRequired: Nobody says who asks.
            Forbidden: `actor` may not create there.
        """
        check_kind(kind)
        with self._database.write() as connection:
            owner, repo_id = _place(connection, actor, repo_id, private=private)
            stamp = now()
            values = {"kind": kind, "owner": owner, "repo_id": repo_id, "repo_key": repo_id.lower()}
            new = insert(tables.repos).values(**values, private=private, created=stamp, updated=stamp)
            try:
                with connection.begin_nested():
                    number = connection.execute(new.returning(tables.repos.c.id)).scalar_one()
            except IntegrityError as error:
                raise Conflict(f"{kind} `{repo_id}` exists already", repo_id=repo_id) from error
            names.take_name(connection, kind, repo_id)
            upsert(connection, tables.trees, [{"sha256": hash_bytes(trees.EMPTY), "data": trees.EMPTY}])
            first = history.add_commit(
                connection, number, repo_id, None, hash_bytes(trees.EMPTY), actor.name or "", "initial commit", ""
            )
            branch = {"repo": number, "kind": "branch", "name": DEFAULT_BRANCH, "commit": first, "message": ""}
            connection.execute(insert(tables.refs).values(**branch))
            self._shelf.record(connection, number, DEFAULT_BRANCH, first)
            events.record(connection, actor.name, f"{kind}.create", repo_id, commit=first, private=private)
            return _one_repo(connection, number)

    def rename(self, actor: Actor, kind: str, repo_id: str, new_id: str) -> Repo:
        """This repository under its new name, with all that is in it; the old name leads to it from now on.

        It takes the right to delete it where it is (`admin`), and the right to create it where it goes (`write`).

        Raises:
            RepoNotFound, RepoMoved: As `get`.
            BadRequest: Not an id that a repository can have.
            Conflict: Another repository has the new name.
            NotFound: The new owner does not exist.
            SignInRequired: Nobody says who asks.
            Forbidden: `actor` may not.
        """
        number = self.get(actor, kind, repo_id).id
        repos = tables.repos
        with self._database.write() as connection:
            old = _one_repo(connection, number, lock=True)
            require(actor, "admin", old, f"rename `{old.repo_id}`")
            owner, new_id = _place(connection, actor, new_id, private=old.private)
            values = {"owner": owner, "repo_id": new_id, "repo_key": new_id.lower()}
            try:
                with connection.begin_nested():
                    connection.execute(update(repos).where(repos.c.id == old.id).values(**values))
            except IntegrityError as error:
                raise Conflict(f"{kind} `{new_id}` exists already", repo_id=new_id) from error
            if new_id != old.repo_id:
                names.add_former_name(connection, old)
                names.take_name(connection, kind, new_id)
                events.record(connection, actor.name, f"{kind}.rename", old.repo_id, to=new_id)
                events.record(connection, actor.name, f"{kind}.rename", new_id, former=old.repo_id)
            return _one_repo(connection, old.id)

    def set_private(self, actor: Actor, repo: Repo, *, private: bool) -> None:
        """Let only those read this repository who may read what is private of its owner, or everybody.

        Raises:
            RepoNotFound: It was deleted meanwhile.
            SignInRequired, Forbidden: `actor` does not administer it.
        """
        self.require(actor, "admin", repo)
        with self._database.write() as connection:
            if _one_repo(connection, repo.id, lock=True).private != private:
                connection.execute(update(tables.repos).where(tables.repos.c.id == repo.id).values(private=private))
                events.record(connection, actor.name, f"{repo.kind}.visibility", repo.repo_id, private=private)

    def delete(self, actor: Actor, kind: str, repo_id: str) -> None:
        """Let this repository be gone, with all its history.

        Raises:
            RepoNotFound, RepoMoved: As `get`.
            Forbidden: `actor` does not administer it.
        """
        repo = self.get(actor, kind, repo_id)
        self.require(actor, "admin", repo)
        with self._database.write() as connection:
            if connection.execute(delete(tables.repos).where(tables.repos.c.id == repo.id)).rowcount:
                events.record(connection, actor.name, f"{repo.kind}.delete", repo.repo_id)

    def get(self, actor: Actor, kind: str, repo_id: str) -> Repo:
        """This repository, by its id in any case.

        Raises:
            RepoNotFound: There is none, or none that `actor` may know of: both read the same.
            RepoMoved: It was called so, and has another name now.
        """
        check_kind(kind)
        with self._database.read() as connection:
            row = connection.execute(_NAMED, {"kind": kind, "key": repo_id.lower()}).first()
            named = row and repo_of(row)
            repo = named or _find_repo(connection, names.formerly(kind, repo_id))
        if repo is None or not may(actor, "read", repo):
            raise RepoNotFound(f"no {kind} `{repo_id[:200]}`", anonymous=actor.name is None)
        if named is None:
            raise RepoMoved(f"{kind} `{repo_id}` is now `{repo.repo_id}`", repo_id=repo.repo_id)
        return repo

    def at(self, actor: Actor, kind: str, repo_id: str, revision: str) -> Revision:
        """What `revision` of this repository means; raises as `get` and `resolve_revision`."""
        with self._database.read() as connection:
            found = find_revision(connection, kind, repo_id, revision)
        if found is not None and may(actor, "read", found.repo):
            return found
        repo = self.get(actor, kind, repo_id)  # from here on nearly all is refused, or led elsewhere
        return self.at(actor, kind, repo.repo_id, self.resolve_revision(repo, revision))

    def find(self, number: int) -> Repo:
        """The repository with this number, for who holds a signature that names it.

        Raises:
            RepoNotFound: It is gone.
        """
        with self._database.read() as connection:
            return _one_repo(connection, number)

    def require(self, actor: Actor, action: Action, repo: Repo) -> None:
        """Nothing, if `actor` may do `action` with `repo`.

        Raises:
            SignInRequired: Nobody says who asks.
            Forbidden: `actor` may not.
        """
        require(actor, action, repo, f"{action} `{repo.repo_id}`")

    def search(
        self,
        actor: Actor,
        *,
        kind: str,
        text: str = "",
        author: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[Repo]:
        """Repositories that `actor` may read, by id.

        Args:
            actor: Who asks.
            kind: `kernel` or `model`.
            text: What the id must contain, in any case.
            author: Whose they must be, in any case.
            limit: The most to return; never more than a page.
            after: The `repo_id` that the last answer ended with.
        """
        check_kind(kind)
        query = listed(actor, kind, text=text, author=author, after=after)
        with self._database.read() as connection:
            return [repo_of(row) for row in connection.execute(query.limit(self._limits.page_of(limit)))]


@dataclass(frozen=True)
class _NewPlace:
    owner: str
    private: bool


def _place(connection: Connection, actor: Actor, repo_id: str, *, private: bool) -> tuple[int, str]:
    """(number of the owner, id) of a repository that `actor` may create or bring there."""
    owner_name, name = split_repo_id(repo_id)
    accounts = tables.accounts
    owner = connection.execute(select(accounts).where(accounts.c.name_key == owner_name.lower())).first()
    place = _NewPlace(owner.name if owner else owner_name, private)
    require(actor, "write", place, f"create repositories of `{place.owner}`")
    if owner is None:
        raise NotFound(f"no user or organisation is called `{owner_name}`", owner=owner_name)
    return owner.id, f"{owner.name}/{name}"


def _find_repo(connection: Connection, chosen: ColumnElement[bool], *, lock: bool = False) -> Repo | None:
    query = select(tables.repos).where(chosen)
    row = connection.execute(query.with_for_update() if lock else query).first()
    return None if row is None else repo_of(row)


def _one_repo(connection: Connection, number: int, *, lock: bool = False) -> Repo:
    repo = _find_repo(connection, tables.repos.c.id == number, lock=lock)
    if repo is None:
        raise RepoNotFound("this repository is gone")
    return repo
