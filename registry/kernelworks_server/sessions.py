"""Browsers that are signed in: each by a secret of its own, for a time, and no longer than the token it showed works.

Only what reads asks here who somebody is: what a browser sends along unasked must not change anything.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

from sqlalchemy import delete, insert, select

from kernelworks_server.database.engine import Database, now
from kernelworks_server.database.tables import sessions, tokens
from kernelworks_server.errors import InvalidToken
from kernelworks_server.rights import ANONYMOUS, Actor
from kernelworks_server.tokens import actor_of, secret_digest

__all__ = ["COOKIE", "LIFETIME", "Sessions"]

COOKIE = "kernel_registry_session"
LIFETIME = timedelta(days=14)
_BYTES = 32


class Sessions:
    """The sessions of one registry."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, token: str) -> str:
        """The secret of a new session, which is whom `token` speaks for; sessions whose time is over are forgotten.

        Raises:
            InvalidToken: It is unknown, revoked or expired.
        """
        secret = secrets.token_urlsafe(_BYTES)
        chosen = tokens.c.sha256 == secret_digest(token)
        with self._database.write() as connection:
            if actor_of(connection, chosen) is None:
                raise InvalidToken
            number = connection.execute(select(tokens.c.id).where(chosen)).scalar_one()
            connection.execute(delete(sessions).where(sessions.c.expires <= now()))
            expires = now() + LIFETIME // timedelta(microseconds=1)
            connection.execute(insert(sessions).values(sha256=secret_digest(secret), token=number, expires=expires))
        return secret

    def actor(self, secret: str | None) -> Actor:
        """Whose session this is; nobody where it is none, or over."""
        if not secret:
            return ANONYMOUS
        own = (sessions.c.sha256 == secret_digest(secret)) & (sessions.c.expires > now())
        with self._database.read() as connection:
            token = select(sessions.c.token).where(own).scalar_subquery()
            return actor_of(connection, tokens.c.id == token) or ANONYMOUS

    def end(self, secret: str) -> None:
        """Let this session be over."""
        with self._database.write() as connection:
            connection.execute(delete(sessions).where(sessions.c.sha256 == secret_digest(secret)))
