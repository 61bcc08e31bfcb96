"""What every kernel offers, as rows that one query can search: of each of its versions, and of `main`.

All of it is derived from the indexes in the commits. It is written in the transaction that moves a branch, so that
lists are never behind; `Shelf.fill` adds what is missing, such as what was committed before there was a shelf, or
writes all of it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from sqlalchemy import Connection, delete, exists, insert, select, update

from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.model.variant import Variant
from kernelworks.transport.repo_id import version_of
from kernelworks_server import history, trees
from kernelworks_server.blobs import Blobs
from kernelworks_server.database import tables
from kernelworks_server.database.engine import Database, upsert
from kernelworks_server.database.tables import commits, needs, offers, refs, shelf, yanks
from kernelworks_server.indexes import Indexes
from kernelworks_server.profiles import Profile, Profiles
from kernelworks_server.records import DEFAULT_BRANCH, Repo

__all__ = ["Shelf", "settle"]

_LONGEST = 200  # characters of a name; longer ones are no repository's
_MOST = 1_000  # variants of one version that searches know: every search weighs every profile that there ever was


class Shelf:
    """The shelf of one registry, with the indexes and profiles that it is made of."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self.indexes = Indexes(blobs)
        self.profiles = Profiles()

    def foresee(self, file: trees.File | None) -> None:
        """Read this index now, so that no transaction waits for it."""
        if file is not None:
            self.indexes.read(file.sha256, file.size)

    def record(self, connection: Connection, repo: int, branch: str, commit: str) -> None:
        """Let the shelf tell of `commit`, which `branch` is at now; only versions and `main` stand on it.

        Args:
            connection: The transaction that moves the branch.
            repo: The number of the repository.
            branch: A branch that exists.
            commit: The head of the branch.
        """
        if not _shown(branch):
            return
        load = cache(partial(_tree, connection))
        top = select(commits.c.tree).where(commits.c.repo == repo, commits.c.id == commit)
        root = load(connection.execute(top).scalar_one())
        file = root.get(INDEX_NAME)
        index = self.indexes.read(file.sha256, file.size) if isinstance(file, trees.File) else None
        variants = index.variants if isinstance(index, Index) else ()
        connection.execute(delete(shelf).where(shelf.c.repo == repo, shelf.c.branch == branch))
        row = {"repo": repo, "branch": branch, "version": version_of(branch), "commit": commit}
        new = insert(shelf).values(**row, variants=len(variants), newest=False).returning(shelf.c.id)
        place = connection.execute(new).scalar_one()
        projects: dict[Profile, str | None] = {}
        for variant in variants[:_MOST]:
            profile = Profile.of(variant)
            projects[profile] = projects.get(profile) or _project(root, load, variant)
        numbers = self.profiles.numbers(connection, projects)
        found = [{"shelf": place, "profile": numbers[profile], "project": name} for profile, name in projects.items()]
        upsert(connection, offers, found)
        keys = {need.repo_id.lower()[:_LONGEST] for variant in variants for need in variant.kernel_depends}
        upsert(connection, needs, [{"shelf": place, "repo_key": key} for key in keys])
        settle(connection, repo)

    def newest(self, repo: Repo) -> str:
        """The branch that somebody gets who names no revision; `settle` says which one."""
        query = select(shelf.c.branch).where(shelf.c.repo == repo.id, shelf.c.newest)
        with self._database.read() as connection:
            return connection.scalar(query) or DEFAULT_BRANCH

    def fill(self, *, anew: bool = False) -> int:
        """Record every head that the shelf does not tell of, or all of them `anew`; returns how many there were."""
        same = (shelf.c.repo == refs.c.repo) & (shelf.c.branch == refs.c.name) & (shelf.c.commit == refs.c.commit)
        query = select(refs.c.repo, refs.c.name).where(refs.c.kind == "branch")
        with self._database.read() as connection:
            heads = connection.execute(query if anew else query.where(~exists().where(same))).all()
        shown = [head for head in heads if _shown(head.name)]
        for repo, branch in shown:
            with self._database.write() as connection:  # one by one, so that nobody waits for long
                history.claim(connection, repo)
                commit = connection.scalar(select(refs.c.commit).where(refs.c.repo == repo, refs.c.name == branch))
                if commit is not None:  # not deleted meanwhile
                    self.record(connection, repo, branch, commit)
        return len(shown)


def settle(connection: Connection, repo: int) -> None:
    """Say anew which place on the shelf is the newest of this repository: after a head, a branch or a yank changed.

    It is the newest version that is not yanked, as for a loader that is told no version; else the newest, else `main`.
    The transaction has claimed the repository (`history.claim`).
    """
    yanked = exists().where(yanks.c.repo == shelf.c.repo, yanks.c.commit == shelf.c.commit)
    order = (shelf.c.version.is_(None), yanked, shelf.c.version.desc())
    newest = connection.scalar(select(shelf.c.id).where(shelf.c.repo == repo).order_by(*order).limit(1))
    connection.execute(update(shelf).where(shelf.c.repo == repo, shelf.c.newest).values(newest=False))
    connection.execute(update(shelf).where(shelf.c.id == newest).values(newest=True))


def _shown(branch: str) -> bool:
    return branch == DEFAULT_BRANCH or version_of(branch) is not None


def _project(root: trees.Tree, load: Callable[[str], trees.Tree], variant: Variant) -> str | None:
    """What the wheel of `variant` installs, or None where its bytes are not those that the index proves."""
    *folders, file = variant.wheel.path.split("/")
    tree = root
    for name in folders:
        node = tree.get(name)
        tree = load(node.tree) if isinstance(node, trees.Folder) else {}
    wheel = tree.get(file)
    if not isinstance(wheel, trees.File) or wheel.sha256 != variant.wheel.sha256:
        return None
    try:
        return canonicalize_name(parse_wheel_filename(file)[0])[:_LONGEST]
    except InvalidWheelFilename:
        return None


def _tree(connection: Connection, sha256: str) -> trees.Tree:
    query = select(tables.trees.c.data).where(tables.trees.c.sha256 == sha256)
    return trees.decode(connection.execute(query).scalar_one())
