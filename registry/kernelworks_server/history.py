"""The commits of one repository, read and written over a connection: nothing here finds a commit of another.

The id of a commit is the beginning of the SHA-256 of its canonical record, which names its repository.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, literal, select

from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks_server.database.engine import moment, now
from kernelworks_server.database.tables import commits, refs, repos
from kernelworks_server.errors import RevisionNotFound
from kernelworks_server.records import COMMIT_DIGITS, Commit, Repo, is_commit

__all__ = ["add_commit", "claim", "commit_of", "commit_row", "lineage", "no_revision", "resolve"]


def claim(connection: Connection, repo: int) -> None:
    """Let whoever else changes refs, commits or yanks of this repository wait for the end of this transaction.

    It is the first thing that such a transaction does, so that no two of them wait for each other.
    """
    connection.execute(select(repos.c.id).where(repos.c.id == repo).with_for_update(key_share=True))


def resolve(connection: Connection, repo: Repo, revision: str) -> str:
    """The commit that a branch, a tag, or a full commit id of `repo` means.

    Raises:
        RevisionNotFound: It means none of this repository.
    """
    chosen = (refs.c.repo == repo.id) & (refs.c.name == revision)
    for prefix, kind in (("refs/heads/", "branch"), ("refs/tags/", "tag")):
        if revision.startswith(prefix):
            name = revision.removeprefix(prefix)
            chosen = (refs.c.repo == repo.id) & (refs.c.name == name) & (refs.c.kind == kind)
    commit = connection.scalar(select(refs.c.commit).where(chosen))
    if commit is None and is_commit(revision):
        commit = connection.scalar(select(commits.c.id).where(commits.c.repo == repo.id, commits.c.id == revision))
    if commit is None:
        raise no_revision(repo, revision)
    return str(commit)


def commit_row(connection: Connection, repo: Repo, commit: str) -> Row[Any]:
    """The row of this commit; raises as `resolve`."""
    row = connection.execute(select(commits).where(commits.c.repo == repo.id, commits.c.id == commit)).first()
    if row is None:
        raise no_revision(repo, commit)
    return row


def lineage(connection: Connection, repo: Repo, start: str | None, limit: int) -> list[Commit]:
    """At most `limit` commits from `start` towards the first one."""
    first = select(commits, literal(1).label("depth")).where(commits.c.repo == repo.id, commits.c.id == start)
    line = first.cte("line", recursive=True)
    older = (commits.c.repo == repo.id) & (commits.c.id == line.c.parent)
    line = line.union_all(select(commits, line.c.depth + 1).join(line, older).where(line.c.depth < limit))
    return [commit_of(row) for row in connection.execute(select(line).order_by(line.c.depth))]


def add_commit(
    connection: Connection,
    repo: int,
    repo_id: str,
    parent: str | None,
    tree: str,
    author: str,
    message: str,
    description: str,
) -> str:
    """The id of a new commit, which no ref leads to yet."""
    record: dict[str, Any] = {
        "parent": parent,
        "tree": tree,
        "author": author,
        "message": message,
        "description": description,
        "created": now(),
    }
    commit = hash_bytes(canonical_json({**record, "repo": [repo, repo_id]}))[:COMMIT_DIGITS]
    connection.execute(insert(commits).values(repo=repo, id=commit, **record))
    return commit


def commit_of(row: Row[Any]) -> Commit:
    """What a row of the table says."""
    return Commit(row.id, row.parent, row.message, row.description, row.author, moment(row.created))


def no_revision(repo: Repo, revision: str) -> RevisionNotFound:
    """What to raise where `revision` means nothing."""
    return RevisionNotFound(f"`{repo.repo_id}` has no revision `{revision[:200]}`", revision=revision)
