"""What a revision of a repository means, and what is said against it: what most reads begin with, as one question."""

from __future__ import annotations

from sqlalchemy import Connection, String, bindparam, func, select

from kernelworks_server.database.tables import accounts, commits, notices, refs, repos, yanks
from kernelworks_server.listing import repo_of
from kernelworks_server.records import Notice, Remarks, Revision

__all__ = ["find_revision", "remarks_of"]

_REVISION = bindparam("revision", type_=String())
_QUERY = (  # made once: to put a statement together takes longer than to execute it
    select(
        repos, commits.c.id.label("commit"), yanks.c.reason, notices.c.message, notices.c.successor, accounts.c.trusted
    )
    .select_from(repos)
    .join(accounts, accounts.c.id == repos.c.owner)
    .join(refs, (refs.c.repo == repos.c.id) & (refs.c.name == _REVISION), isouter=True)
    .join(commits, (commits.c.repo == repos.c.id) & (commits.c.id == func.coalesce(refs.c.commit, _REVISION)))
    .join(yanks, (yanks.c.repo == repos.c.id) & (yanks.c.commit == commits.c.id), isouter=True)
    .join(notices, notices.c.repo == repos.c.id, isouter=True)
    .where(repos.c.kind == bindparam("kind"), repos.c.repo_key == bindparam("key"))
)


def find_revision(connection: Connection, kind: str, repo_id: str, revision: str) -> Revision | None:
    """What a branch, a tag, or a full commit id means, by its plain name and the present one of the repository."""
    row = connection.execute(_QUERY, {"kind": kind, "key": repo_id.lower(), "revision": revision}).first()
    if row is None:
        return None
    return Revision(repo_of(row), row.commit, remarks_of(row.reason, row.message, row.successor), row.trusted)


def remarks_of(reason: str | None, message: str | None, successor: str | None) -> Remarks:
    """What the reason of a yank, and the message and successor of a notice, say; None where there is no such row."""
    return Remarks(reason, None if message is None else Notice(message, successor))
