"""Repositories, their branches, tags, commits and files. Everything that is read is asked for of one repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from kernelworks.model.digest import hash_bytes
from kernelworks_server import events, history, trees
from kernelworks_server.blobs import Blobs
from kernelworks_server.config import Limits
from kernelworks_server.database import tables
from kernelworks_server.database.engine import Database, moment, now, upsert
from kernelworks_server.errors import (
    BadRequest,
    Conflict,
    EntryNotFound,
    Forbidden,
    NotFound,
    PreconditionFailed,
    RepoNotFound,
    RevisionNotFound,
    SignInRequired,
    TooLarge,
    Unprocessable,
)
from kernelworks_server.records import (
    DEFAULT_BRANCH,
    KINDS,
    AddFile,
    Commit,
    CopyFile,
    DeleteFile,
    DeleteFolder,
    Entry,
    Operation,
    Ref,
    Repo,
    check_kind,
    check_operations,
    check_path,
    check_ref_name,
    split_repo_id,
)
from kernelworks_server.rights import Action, Actor, Place, may, readable_owners

__all__ = [
    "DEFAULT_BRANCH",
    "KINDS",
    "AddFile",
    "Commit",
    "CopyFile",
    "DeleteFile",
    "DeleteFolder",
    "Entry",
    "Operation",
    "Ref",
    "Repo",
    "Repositories",
    "check_path",
]

T = TypeVar("T")

_AT_ONCE = 500  # values in one `IN`; databases bound them
_CACHED_TREES = 4_096


@dataclass(frozen=True)
class _NewPlace:
    owner: str
    private: bool


class Repositories:
    """All repositories of one registry."""

    def __init__(self, database: Database, blobs: Blobs, limits: Limits) -> None:
        self._database = database
        self._blobs = blobs
        self._limits = limits
        self._tree = lru_cache(maxsize=_CACHED_TREES)(self._load_tree)  # a tree never changes

    # Repositories

    def create(self, actor: Actor, kind: str, repo_id: str, *, private: bool) -> Repo:
        """A new repository with an empty first commit on `main`.

        Raises:
            BadRequest: Not a kind or an id that a repository can have.
            Conflict: It exists.
            NotFound: Its owner does not.
            SignInRequired: Nobody says who asks.
            Forbidden: `actor` may not create there.
        """
        check_kind(kind)
        owner_name, name = split_repo_id(repo_id)
        with self._database.write() as connection:
            accounts = tables.accounts
            owner = connection.execute(select(accounts).where(accounts.c.name_key == owner_name.lower())).first()
            place = _NewPlace(owner.name if owner else owner_name, private)
            _require(actor, "write", place, f"create repositories of `{place.owner}`")
            if owner is None:
                raise NotFound(f"no user or organisation is called `{owner_name}`", owner=owner_name)
            repo_id = f"{owner.name}/{name}"
            stamp = now()
            values = {"kind": kind, "owner": owner.id, "repo_id": repo_id, "repo_key": repo_id.lower()}
            try:
                with connection.begin_nested():
                    new = insert(tables.repos).values(**values, private=private, created=stamp, updated=stamp)
                    number = connection.execute(new.returning(tables.repos.c.id)).scalar_one()
            except IntegrityError as error:
                raise Conflict(f"{kind} `{repo_id}` exists already", repo_id=repo_id) from error
            upsert(connection, tables.trees, [{"sha256": hash_bytes(trees.EMPTY), "data": trees.EMPTY}])
            first = history.add_commit(
                connection, number, repo_id, None, hash_bytes(trees.EMPTY), actor.name or "", "initial commit", ""
            )
            branch = {"repo": number, "kind": "branch", "name": DEFAULT_BRANCH, "commit": first, "message": ""}
            connection.execute(insert(tables.refs).values(**branch))
            events.record(connection, actor.name, f"{kind}.create", repo_id, commit=first, private=private)
            return _one_repo(connection, tables.repos.c.id == number)

    def delete(self, actor: Actor, kind: str, repo_id: str) -> None:
        """Let this repository be gone, with all its history.

        Raises:
            RepoNotFound: As `get`.
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
        """
        check_kind(kind)
        repos = tables.repos
        with self._database.read() as connection:
            repo = _find_repo(connection, (repos.c.kind == kind) & (repos.c.repo_key == repo_id.lower()))
        if repo is None or not may(actor, "read", repo):
            raise RepoNotFound(f"no {kind} `{repo_id[:200]}`", anonymous=actor.name is None)
        return repo

    def find(self, number: int) -> Repo:
        """The repository with this number, for who holds a signature that names it.

        Raises:
            RepoNotFound: It is gone.
        """
        with self._database.read() as connection:
            return _one_repo(connection, tables.repos.c.id == number)

    def require(self, actor: Actor, action: Action, repo: Repo) -> None:
        """Nothing, if `actor` may do `action` with `repo`.

        Raises:
            SignInRequired: Nobody says who asks.
            Forbidden: `actor` may not.
        """
        _require(actor, action, repo, f"{action} `{repo.repo_id}`")

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
        repos, accounts = tables.repos, tables.accounts
        query = _repo_query().where(repos.c.kind == kind, repos.c.repo_key > (after or "").lower())
        if text:
            query = query.where(repos.c.repo_key.contains(text.lower(), autoescape=True))
        if author is not None:
            query = query.where(accounts.c.name_key == author.lower())
        if not actor.operates:
            query = query.where(repos.c.private.is_(False) | accounts.c.name.in_(sorted(readable_owners(actor))))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(repos.c.repo_key).limit(self._page(limit)))
            return [_repo(row) for row in rows]

    # Refs

    def refs(self, repo: Repo) -> list[Ref]:
        """Every branch and tag, by name."""
        refs = tables.refs
        query = select(refs.c.name, refs.c.kind, refs.c.commit, refs.c.message).where(refs.c.repo == repo.id)
        with self._database.read() as connection:
            return [Ref(*row) for row in connection.execute(query.order_by(refs.c.name))]

    def create_branch(self, actor: Actor, repo: Repo, name: str, start: str | None) -> None:
        """A branch at the revision `start`, or at the head of `main`.

        Raises:
            BadRequest: Not a name that a branch can have.
            Conflict: A branch or tag of this name exists.
            RevisionNotFound: There is no `start`.
        """
        self._create_ref(actor, repo, "branch", name, start or DEFAULT_BRANCH, "")

    def delete_branch(self, actor: Actor, repo: Repo, name: str) -> None:
        """Let this branch be gone; its commits stay readable by their ids.

        Raises:
            BadRequest: It is `main`.
            RevisionNotFound: There is none.
        """
        if name == DEFAULT_BRANCH:
            raise BadRequest(f"the branch `{DEFAULT_BRANCH}` cannot be deleted")
        self._delete_ref(actor, repo, "branch", name)

    def create_tag(self, actor: Actor, repo: Repo, name: str, revision: str, message: str) -> None:
        """A tag at `revision`; raises as `create_branch` does."""
        self._create_ref(actor, repo, "tag", name, revision, message)

    def delete_tag(self, actor: Actor, repo: Repo, name: str) -> None:
        """Let this tag be gone.

        Raises:
            RevisionNotFound: There is none.
        """
        self._delete_ref(actor, repo, "tag", name)

    def _create_ref(self, actor: Actor, repo: Repo, kind: str, name: str, start: str, message: str) -> None:
        self.require(actor, "write", repo)
        check_ref_name(name)
        self._check_message(message)
        with self._database.write() as connection:
            commit = history.resolve(connection, repo, start)
            try:
                with connection.begin_nested():
                    values = {"repo": repo.id, "kind": kind, "name": name, "commit": commit, "message": message}
                    connection.execute(insert(tables.refs).values(**values))
            except IntegrityError as error:
                raise Conflict(f"`{repo.repo_id}` has a branch or tag `{name}` already", name=name) from error
            events.record(connection, actor.name, f"{kind}.create", repo.repo_id, commit=commit, name=name)

    def _delete_ref(self, actor: Actor, repo: Repo, kind: str, name: str) -> None:
        self.require(actor, "write", repo)
        refs = tables.refs
        chosen = (refs.c.repo == repo.id) & (refs.c.kind == kind) & (refs.c.name == name)
        with self._database.write() as connection:
            if connection.execute(delete(refs).where(chosen)).rowcount == 0:
                raise RevisionNotFound(f"`{repo.repo_id}` has no {kind} `{name}`", revision=name)
            events.record(connection, actor.name, f"{kind}.delete", repo.repo_id, name=name)

    # Commits and files

    def resolve_revision(self, repo: Repo, revision: str) -> str:
        """The commit that a branch, a tag, or a full commit id of this repository means.

        Raises:
            RevisionNotFound: It means none of this repository.
        """
        with self._database.read() as connection:
            return history.resolve(connection, repo, revision)

    def commit_info(self, repo: Repo, commit: str) -> Commit:
        """What is recorded of this commit.

        Raises:
            RevisionNotFound: It is none of this repository.
        """
        with self._database.read() as connection:
            return history.commit_of(history.commit_row(connection, repo, commit))

    def commits(
        self, repo: Repo, commit: str, *, after: str | None = None, limit: int = 50
    ) -> tuple[list[Commit], str | None]:
        """(commits from `commit` back to the first, what to give as `after` for the next page).

        Raises:
            RevisionNotFound: One of the two is none of this repository.
        """
        with self._database.read() as connection:
            start = history.commit_row(connection, repo, commit).id
            if after is not None:
                start = history.commit_row(connection, repo, after).parent
            found = history.lineage(connection, repo, start, self._page(limit))
        return found, found[-1].id if found and found[-1].parent else None

    def tree(
        self, repo: Repo, commit: str, folder: str, *, recursive: bool, after: str | None, limit: int
    ) -> tuple[list[Entry], str | None]:
        """(entries below `folder` in the order of their paths, what to give as `after` for the next page).

        Raises:
            RevisionNotFound: The commit is none of this repository.
            EntryNotFound: It has no such folder.
        """
        root = self._root(repo, commit)
        parts = _parts(folder)
        here = self._descend(root, parts)
        if not isinstance(here, trees.Folder):
            raise _no_entry(repo, commit, folder)
        seen = _parts(after or "")
        walked: Iterator[tuple[tuple[str, ...], trees.File | trees.Folder]]
        if recursive:
            walked = trees.walk(self._tree(here.tree), self._tree, after=seen[len(parts) :], prefix=())
        else:
            walked = (((name,), node) for name, node in self._tree(here.tree).items() if (name,) > seen[len(parts) :])
        limit = self._page(limit)
        entries = [_entry((*parts, *path), node) for (path, node), _ in zip(walked, range(limit + 1), strict=False)]
        return entries[:limit], entries[limit - 1].path if len(entries) > limit else None

    def entry(self, repo: Repo, commit: str, path: str) -> Entry:
        """The file or folder at `path`.

        Raises:
            RevisionNotFound: The commit is none of this repository.
            EntryNotFound: It has nothing at `path`.
        """
        found = self.paths_info(repo, commit, [path])
        if not found:
            raise _no_entry(repo, commit, path)
        return found[0]

    def paths_info(self, repo: Repo, commit: str, paths: Iterable[str]) -> list[Entry]:
        """What is at `paths`, in their order; those where nothing is are left out.

        Raises:
            RevisionNotFound: The commit is none of this repository.
        """
        root = self._root(repo, commit)
        found = ((_parts(path), self._descend(root, _parts(path))) for path in paths)
        return [_entry(parts, node) for parts, node in found if parts and node is not None]

    def commit(
        self,
        actor: Actor,
        repo: Repo,
        branch: str,
        operations: Sequence[Operation],
        *,
        message: str,
        description: str,
        parent: str | None,
    ) -> str:
        """The id of the new head of `branch`, on the disk; the old head where `operations` change nothing.

        Deletions are done first, whatever the order. Of commits that run at the same time one waits for the other, and
        then fails if it gave a parent that is the head no longer.

        Args:
            actor: Who commits.
            repo: Where.
            branch: A branch that exists.
            operations: What changes.
            message: The first line.
            description: The rest, or nothing.
            parent: The commit that the operations were prepared on, or None to commit on whatever is there.

        Raises:
            BadRequest: A path cannot be, or is given twice.
            Conflict: Paths stand in each other's way.
            EntryNotFound: What is to be copied or deleted is not there.
            PreconditionFailed: `parent` is not the head.
            RevisionNotFound: No such branch.
            TooLarge: Too many operations, or a file that must go through LFS.
            Unprocessable: Bytes were not uploaded to this repository, or have another size.
        """
        self.require(actor, "write", repo)
        self._check_message(message + description)
        check_operations(operations, self._limits.operations)
        files = self._files([operation for operation in operations if isinstance(operation, AddFile)], repo)
        refs = tables.refs
        chosen = (refs.c.repo == repo.id) & (refs.c.kind == "branch") & (refs.c.name == branch)
        with self._database.write() as connection:
            head = connection.scalar(select(refs.c.commit).where(chosen).with_for_update())
            if head is None:
                raise RevisionNotFound(f"`{repo.repo_id}` has no branch `{branch[:200]}`", revision=branch)
            if parent not in {None, head}:
                raise PreconditionFailed(
                    f"the branch `{branch}` is at `{head}`, not at `{parent}`: somebody committed meanwhile",
                    hint="look at what changed and commit again",
                    expected=parent,
                    got=head,
                )
            old = history.commit_row(connection, repo, head).tree
            workspace = trees.Workspace(old, self._tree, self._limits.folder)
            _delete(workspace, operations, repo, head)
            for path, file in files.items():
                workspace.put(path, file)
            for operation in operations:
                if isinstance(operation, CopyFile):
                    workspace.put(operation.path, self._source(connection, repo, operation, head))
            tree, encodings = workspace.seal()
            if tree == old:
                return str(head)
            upsert(connection, tables.trees, [{"sha256": key, "data": data} for key, data in encodings.items()])
            _hold(connection, repo, {file.sha256 for file in files.values()})
            new = history.add_commit(
                connection, repo.id, repo.repo_id, head, tree, actor.name or "", message, description
            )
            moved = connection.execute(update(refs).where(chosen, refs.c.commit == head).values(commit=new)).rowcount
            if moved != 1:
                raise PreconditionFailed(f"the branch `{branch}` moved meanwhile", hint="commit again")
            connection.execute(update(tables.repos).where(tables.repos.c.id == repo.id).values(updated=now()))
            events.record(connection, actor.name, "commit", repo.repo_id, commit=new, branch=branch, parent=head)
            return new

    def _files(self, added: Sequence[AddFile], repo: Repo) -> dict[str, trees.File]:
        """The files to add by their paths, each proved to be held by this repository."""
        sizes = self.held(repo, {operation.sha256 for operation in added})
        files = {}
        for operation in added:
            path, sha256, size = operation.path, operation.sha256, operation.size
            if sizes.get(sha256) != size or self._blobs.size(sha256) != size:
                raise Unprocessable(
                    f"`{path}`: no {size} bytes with the SHA-256 `{sha256[:64]}` were uploaded to `{repo.repo_id}`",
                    hint="upload the file again",
                    path=path,
                    sha256=sha256,
                )
            if not operation.lfs and size > self._limits.regular_file:
                raise TooLarge(
                    f"`{path}` has {size} bytes; from {self._limits.regular_file} on a file must go through LFS",
                    path=path,
                )
            if operation.lfs:
                oid = trees.pointer_oid(sha256, size)
            else:
                oid = trees.blob_oid(b"".join(self._blobs.read(sha256)))
            files[path] = trees.File(size, oid, sha256, operation.lfs)
        return files

    def _source(self, connection: Connection, repo: Repo, operation: CopyFile, head: str) -> trees.File:
        commit = history.resolve(connection, repo, operation.source_revision) if operation.source_revision else head
        root = trees.Folder("", history.commit_row(connection, repo, commit).tree)
        found = self._descend(root, _parts(operation.source_path))
        if not isinstance(found, trees.File):
            raise _no_entry(repo, commit, operation.source_path)
        return found

    def _root(self, repo: Repo, commit: str) -> trees.Folder:
        with self._database.read() as connection:
            return trees.Folder("", history.commit_row(connection, repo, commit).tree)

    def _descend(self, root: trees.Folder, parts: Sequence[str]) -> trees.File | trees.Folder | None:
        node: trees.File | trees.Folder | None = root
        for part in parts:
            if not isinstance(node, trees.Folder):
                return None
            node = self._tree(node.tree).get(part)
        return node

    def _load_tree(self, sha256: str) -> trees.Tree:
        with self._database.read() as connection:
            query = select(tables.trees.c.data).where(tables.trees.c.sha256 == sha256)
            return trees.decode(connection.execute(query).scalar_one())

    def _page(self, limit: int) -> int:
        return max(1, min(limit, self._limits.page))

    def _check_message(self, text: str) -> None:
        if len(text.encode(errors="replace")) > self._limits.message:
            raise TooLarge(f"a message has at most {self._limits.message} bytes", limit=self._limits.message)

    # What was uploaded

    def receive(self, repo: Repo, chunks: Iterable[bytes], *, expected: str | None, limit: int) -> tuple[str, int]:
        """(SHA-256, size) of what `chunks` yield, kept for a commit to this repository.

        Raises:
            Conflict: The repository is gone meanwhile, or as `Blobs.put`.
            TooLarge, Unprocessable: As `Blobs.put`.
        """
        sha256, size = self._blobs.put(chunks, expected=expected, limit=limit)
        holding = {"repo": repo.id, "sha256": sha256, "committed": False, "touched": now()}
        self._keep(repo, tables.holdings, holding, update=["touched"])
        return sha256, size

    def held(self, repo: Repo, sha256s: Iterable[str]) -> dict[str, int]:
        """The sizes of those files that this repository has or was sent; their wait for a commit starts anew."""
        holdings, blobs = tables.holdings, tables.blobs
        sizes: dict[str, int] = {}
        with self._database.write() as connection:
            for some in _batches(sorted(set(sha256s))):
                chosen = (holdings.c.repo == repo.id) & holdings.c.sha256.in_(some)
                connection.execute(
                    update(holdings).where(chosen, holdings.c.committed.is_(False)).values(touched=now())
                )
                query = select(blobs.c.sha256, blobs.c.size).join(holdings, holdings.c.sha256 == blobs.c.sha256)
                sizes.update({row.sha256: row.size for row in connection.execute(query.where(chosen))})
        return sizes

    def receive_xorb(self, repo: Repo, xorb_hash: str, chunks: Iterable[bytes], *, limit: int) -> bool:
        """Keep a xorb of this repository, as long as the repository lives; returns whether it is new."""
        sha256, _ = self._blobs.put(chunks, expected=None, limit=limit)
        known = self.xorb(repo, xorb_hash) is not None
        self._keep(repo, tables.xorbs, {"repo": repo.id, "hash": xorb_hash, "sha256": sha256})
        return not known

    def xorb(self, repo: Repo, xorb_hash: str) -> str | None:
        """The SHA-256 that the bytes of this repository's xorb are kept under, or None where it has none such."""
        xorbs = tables.xorbs
        query = select(xorbs.c.sha256).where(xorbs.c.repo == repo.id, xorbs.c.hash == xorb_hash)
        with self._database.read() as connection:
            return connection.scalar(query)

    def _keep(self, repo: Repo, table: Table, row: dict[str, Any], update: Sequence[str] = ()) -> None:
        try:
            with self._database.write() as connection:
                upsert(connection, table, [row], update=update)
        except IntegrityError as error:
            raise Conflict(
                f"`{repo.repo_id}` was deleted, or the upload collected, meanwhile", hint="upload the file again"
            ) from error


def _require(actor: Actor, action: Action, place: Place, what: str) -> None:
    if may(actor, action, place):
        return
    if actor.name is None:
        raise SignInRequired(f"to {what}, show a token")
    raise Forbidden(f"`{actor.name}` may not {what}, at least not with this token")


def _delete(workspace: trees.Workspace, operations: Sequence[Operation], repo: Repo, head: str) -> None:
    for operation in operations:
        if isinstance(operation, DeleteFile | DeleteFolder):
            removed = workspace.remove(operation.path, folder=isinstance(operation, DeleteFolder))
            if not removed:
                raise _no_entry(repo, head, operation.path)


def _hold(connection: Connection, repo: Repo, sha256s: set[str]) -> None:
    """Mark these files as committed, which keeps them from garbage collection for good."""
    holdings = tables.holdings
    count = 0
    for some in _batches(sorted(sha256s)):
        chosen = (holdings.c.repo == repo.id) & holdings.c.sha256.in_(some)
        count += connection.execute(update(holdings).where(chosen).values(committed=True)).rowcount
    if count != len(sha256s):
        raise Unprocessable("some of the uploads were too old and have been collected", hint="upload the files again")


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def _no_entry(repo: Repo, commit: str, path: str) -> EntryNotFound:
    return EntryNotFound(f"`{repo.repo_id}` has no `{path[:300]}` at `{commit}`", commit=commit, path=path)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()


def _entry(parts: Sequence[str], node: trees.File | trees.Folder) -> Entry:
    path = "/".join(parts)
    if isinstance(node, trees.File):
        return Entry(path, "file", node.size, node.oid, node.sha256, node.lfs)
    return Entry(path, "directory", 0, node.oid, "", lfs=False)


def _repo_query() -> Select[Any]:
    repos, accounts = tables.repos, tables.accounts
    return select(repos).join(accounts, accounts.c.id == repos.c.owner)


def _find_repo(connection: Connection, chosen: ColumnElement[bool]) -> Repo | None:
    row = connection.execute(select(tables.repos).where(chosen)).first()
    return None if row is None else _repo(row)


def _one_repo(connection: Connection, chosen: ColumnElement[bool]) -> Repo:
    repo = _find_repo(connection, chosen)
    if repo is None:
        raise RepoNotFound("this repository is gone")
    return repo


def _repo(row: Row[Any]) -> Repo:
    owner, name = row.repo_id.split("/")
    return Repo(row.id, row.kind, owner, name, row.private, moment(row.created), moment(row.updated))
