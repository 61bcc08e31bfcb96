"""What publishers say against what they published: commits that are yanked, repositories that are deprecated.

Nothing of it takes a file away. Clients pass over what is yanked unless they ask for just that, and tell of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import bindparam, delete, select
from sqlalchemy.exc import IntegrityError

from kernelworks_server import events, history
from kernelworks_server.database.engine import Database, now, upsert
from kernelworks_server.database.tables import notices, repos, yanks
from kernelworks_server.errors import BadRequest, NotFound, RepoNotFound
from kernelworks_server.records import Notice, Remarks, Repo, split_repo_id
from kernelworks_server.revisions import remarks_of
from kernelworks_server.rights import Actor, require
from kernelworks_server.shelf import settle

__all__ = ["Notices"]

_YANKS = select(yanks.c.commit, yanks.c.reason).where(yanks.c.repo == bindparam("repo"))
_LONGEST = 500  # characters: they travel in headers, where one of them takes up to twelve
_NO_REASON = "no reason was given"
_NO_MESSAGE = "it is not maintained any more"


class Notices:
    """The yanked commits and deprecated repositories of one registry."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def yanks(self, repo: Repo) -> Mapping[str, str]:
        """Why each yanked commit of this repository is yanked; a reason is never empty."""
        with self._database.read() as connection:
            return {row.commit: row.reason for row in connection.execute(_YANKS, {"repo": repo.id})}

    def notice(self, repo: Repo) -> Notice | None:
        """That and why this repository is deprecated, or None where it is not."""
        return self.remarks(repo, "").deprecated

    def remarks(self, repo: Repo, commit: str) -> Remarks:
        """All that is said against this commit and its repository."""
        of_commit = (yanks.c.repo == repos.c.id) & (yanks.c.commit == commit)
        query = (
            select(yanks.c.reason, notices.c.message, notices.c.successor)
            .select_from(repos)
            .join(yanks, of_commit, isouter=True)
            .join(notices, notices.c.repo == repos.c.id, isouter=True)
            .where(repos.c.id == repo.id)
        )
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return Remarks(None, None) if row is None else remarks_of(*row)

    def yank(self, actor: Actor, repo: Repo, revision: str, reason: str = "") -> str:
        """The commit that `revision` means, which is yanked now; the next one on its branch is not.

        Raises:
            BadRequest: The reason is too long, or more than one line.
            RevisionNotFound: There is no such revision.
            SignInRequired, Forbidden: `actor` may not write there.
        """
        require(actor, "write", repo, f"yank commits of `{repo.repo_id}`")
        reason = _line(reason) or _NO_REASON
        with self._database.write() as connection:
            history.claim(connection, repo.id)
            commit = history.resolve(connection, repo, revision)
            row = {"repo": repo.id, "commit": commit, "reason": reason, "created": now()}
            upsert(connection, yanks, [row], update=["reason", "created"])
            settle(connection, repo.id)
            events.record(connection, actor.name, "yank", repo.repo_id, commit=commit, revision=revision, reason=reason)
        return commit

    def unyank(self, actor: Actor, repo: Repo, revision: str) -> str:
        """The commit that `revision` means, which is yanked no longer.

        Raises:
            NotFound: It was not.
            RevisionNotFound, SignInRequired, Forbidden: As `yank`.
        """
        require(actor, "write", repo, f"yank commits of `{repo.repo_id}`")
        with self._database.write() as connection:
            history.claim(connection, repo.id)
            commit = history.resolve(connection, repo, revision)
            chosen = (yanks.c.repo == repo.id) & (yanks.c.commit == commit)
            if connection.execute(delete(yanks).where(chosen)).rowcount == 0:
                raise NotFound(f"`{revision}` of `{repo.repo_id}` is not yanked", commit=commit)
            settle(connection, repo.id)
            events.record(connection, actor.name, "yank.undo", repo.repo_id, commit=commit, revision=revision)
        return commit

    def deprecate(self, actor: Actor, repo: Repo, message: str = "", successor: str | None = None) -> Notice:
        """What clients are told of this repository from now on.

        Args:
            actor: Who says so.
            repo: Which repository.
            message: Why, in one line.
            successor: The id of the repository to use instead; here or elsewhere, nobody looks.

        Raises:
            BadRequest: The message is too long, or more than one line; or the successor is no other repository.
            RepoNotFound: The repository was deleted meanwhile.
            SignInRequired, Forbidden: `actor` may not write there.
        """
        require(actor, "write", repo, f"deprecate `{repo.repo_id}`")
        if successor is not None:
            split_repo_id(successor)
            if successor.lower() == repo.repo_id.lower():
                raise BadRequest(f"`{repo.repo_id}` cannot be its own successor")
        notice = Notice(_line(message) or _NO_MESSAGE, successor)
        told = asdict(notice)
        try:
            with self._database.write() as connection:
                row = {"repo": repo.id, "created": now(), **told}
                upsert(connection, notices, [row], update=["created", *told])
                events.record(connection, actor.name, f"{repo.kind}.deprecate", repo.repo_id, **told)
        except IntegrityError as error:
            raise RepoNotFound(f"`{repo.repo_id}` was deleted meanwhile") from error
        return notice

    def undeprecate(self, actor: Actor, repo: Repo) -> None:
        """Let this repository be as good as any.

        Raises:
            NotFound: It is not deprecated.
            SignInRequired, Forbidden: `actor` may not write there.
        """
        require(actor, "write", repo, f"deprecate `{repo.repo_id}`")
        with self._database.write() as connection:
            if connection.execute(delete(notices).where(notices.c.repo == repo.id)).rowcount == 0:
                raise NotFound(f"`{repo.repo_id}` is not deprecated")
            events.record(connection, actor.name, f"{repo.kind}.deprecate.undo", repo.repo_id)


def _line(text: str) -> str:
    """`text` without blanks around it, if it can stand in a header, a list and a log."""
    text = text.strip()
    if len(text) > _LONGEST or not text.isprintable():
        raise BadRequest(f"a reason or message is one line of at most {_LONGEST} characters", text=text[:_LONGEST])
    return text
