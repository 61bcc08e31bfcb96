"""What is in the commits of repositories: read, and always of one repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from sqlalchemy import Connection, select
from sqlalchemy.exc import NoResultFound

from kernelworks_server import history, trees
from kernelworks_server.config import Limits
from kernelworks_server.database import tables
from kernelworks_server.database.engine import Database
from kernelworks_server.errors import EntryNotFound
from kernelworks_server.records import Commit, Entry, Repo

__all__ = ["Contents", "no_entry"]

_CACHED_TREES = 4_096
_CACHED_COMMITS = 16_384


def no_entry(repo: Repo, commit: str, path: str) -> EntryNotFound:
    """What to raise where a commit lacks `path`."""
    return EntryNotFound(f"`{repo.repo_id}` has no `{path[:300]}` at `{commit}`", commit=commit, path=path)


class Contents:
    """The commits, folders and files of all repositories of one registry."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits
        self.folder = lru_cache(maxsize=_CACHED_TREES)(self._folder)  # a tree never changes
        self._top = lru_cache(maxsize=_CACHED_COMMITS)(self._read_top)  # nor does a commit; numbers never come back

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
            found = history.lineage(connection, repo, start, self._limits.page_of(limit))
        return found, found[-1].id if found and found[-1].parent else None

    def tree(
        self, repo: Repo, commit: str, folder: str, *, recursive: bool, after: str | None, limit: int
    ) -> tuple[list[Entry], str | None]:
        """(entries below `folder` in the order of their paths, what to give as `after` for the next page).

        Raises:
            RevisionNotFound: The commit is none of this repository.
            EntryNotFound: It has no such folder.
        """
        parts = _parts(folder)
        here = self._descend(self._root(repo, commit), parts)
        if not isinstance(here, trees.Folder):
            raise no_entry(repo, commit, folder)
        seen = _parts(after or "")
        walked: Iterator[tuple[tuple[str, ...], trees.File | trees.Folder]]
        if recursive:
            walked = trees.walk(self.folder(here.tree), self.folder, after=seen[len(parts) :], prefix=())
        else:
            walked = (((name,), node) for name, node in self.folder(here.tree).items() if (name,) > seen[len(parts) :])
        limit = self._limits.page_of(limit)
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
            raise no_entry(repo, commit, path)
        return found[0]

    def paths_info(self, repo: Repo, commit: str, paths: Iterable[str]) -> list[Entry]:
        """What is at `paths`, in their order; those where nothing is are left out.

        Raises:
            RevisionNotFound: The commit is none of this repository.
        """
        root = self._root(repo, commit)
        found = ((_parts(path), self._descend(root, _parts(path))) for path in paths)
        return [_entry(parts, node) for parts, node in found if parts and node is not None]

    def file(self, connection: Connection, repo: Repo, commit: str, path: str) -> trees.File:
        """The file at `path`; raises as `entry` does."""
        root = trees.Folder("", history.commit_row(connection, repo, commit).tree)
        found = self._descend(root, _parts(path))
        if not isinstance(found, trees.File):
            raise no_entry(repo, commit, path)
        return found

    def _root(self, repo: Repo, commit: str) -> trees.Folder:
        try:
            return self._top(repo.id, commit)
        except NoResultFound as error:
            raise history.no_revision(repo, commit) from error

    def _read_top(self, repo: int, commit: str) -> trees.Folder:
        """The folder that this commit is of; its own id is nobody's concern."""
        chosen = (tables.commits.c.repo == repo) & (tables.commits.c.id == commit)
        with self._database.read() as connection:
            return trees.Folder("", connection.execute(select(tables.commits.c.tree).where(chosen)).scalar_one())

    def _descend(self, root: trees.Folder, parts: Sequence[str]) -> trees.File | trees.Folder | None:
        node: trees.File | trees.Folder | None = root
        for part in parts:
            if not isinstance(node, trees.Folder):
                return None
            node = self.folder(node.tree).get(part)
        return node

    def _folder(self, sha256: str) -> trees.Tree:
        """The entries of the folder whose encoding has this SHA-256."""
        with self._database.read() as connection:
            query = select(tables.trees.c.data).where(tables.trees.c.sha256 == sha256)
            return trees.decode(connection.execute(query).scalar_one())


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()


def _entry(parts: Sequence[str], node: trees.File | trees.Folder) -> Entry:
    path = "/".join(parts)
    if isinstance(node, trees.File):
        return Entry(path, "file", node.size, node.oid, node.sha256, node.lfs)
    return Entry(path, "directory", 0, node.oid, "", lfs=False)
