"""The tokens that speak for users, and whom each of them speaks for. Only their SHA-256 is kept."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, update

from kernelworks_server import events
from kernelworks_server.accounts import account_row, roles_of
from kernelworks_server.database.engine import Database, moment, now
from kernelworks_server.database.tables import accounts, tokens
from kernelworks_server.errors import BadRequest, Conflict, InvalidToken, NotFound
from kernelworks_server.rights import ANONYMOUS, Actor, check_role

__all__ = ["Token", "Tokens", "actor_of", "secret_digest"]

_BYTES = 30
_LONGEST_LABEL = 100


@dataclass(frozen=True)
class Token:
    """What is known of a token; the token itself is not: only its SHA-256 is kept."""

    label: str
    scope: str
    org: str | None
    created: datetime
    expires: datetime | None
    revoked: datetime | None


class Tokens:
    """All tokens of one registry."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def actor(self, token: str | None) -> Actor:
        """Whom `token` speaks for, and with which rights; nobody where it is None.

        Raises:
            InvalidToken: It is unknown, revoked or expired.
        """
        if token is None:
            return ANONYMOUS
        with self._database.read() as connection:
            found = actor_of(connection, tokens.c.sha256 == secret_digest(token))
        if found is None:
            raise InvalidToken
        return found

    def create_token(
        self, user: str, *, label: str, scope: str, org: str | None = None, lifetime: timedelta | None = None
    ) -> str:
        """A new token, which nobody can show a second time.

        Args:
            user: Whom it speaks for.
            label: What the user knows it by.
            scope: The most that it allows: `read`, `write` or `admin`.
            org: The one organisation (or the user's own name) that it is for, or None for all of the user's.
            lifetime: How long it works, or None for ever.

        Raises:
            BadRequest: No such scope, or not a label.
            Conflict: The user has a token of this label; a revoked one counts, its label tells logs apart.
            NotFound: No such user or organisation.
        """
        check_role(scope)
        if not label.isprintable() or not 0 < len(label) <= _LONGEST_LABEL:
            raise BadRequest(f"a token's label is one line of at most {_LONGEST_LABEL} characters", label=label)
        token = f"kw_{secrets.token_urlsafe(_BYTES)}"
        created = now()
        expires = None if lifetime is None else created + lifetime // timedelta(microseconds=1)
        with self._database.write() as connection:
            values: dict[str, Any] = {
                "account": account_row(connection, user, "user").id,
                "bound_to": None if org is None else account_row(connection, org).id,
            }
            known = (tokens.c.account == values["account"]) & (tokens.c.label == label)
            if connection.scalar(select(tokens.c.id).where(known)) is not None:
                raise Conflict(f"`{user}` has a token `{label}` already", hint="choose another label", label=label)
            values |= {"label": label, "sha256": secret_digest(token), "scope": scope}
            connection.execute(insert(tokens).values(**values, created=created, expires=expires))
            events.record(connection, None, "token.create", user, label=label, scope=scope, org=org)
        return token

    def revoke(self, user: str, label: str) -> None:
        """Let this token of `user` work no more.

        Raises:
            NotFound: No such user or token, or it is revoked already.
        """
        with self._database.write() as connection:
            chosen = (tokens.c.account == account_row(connection, user, "user").id) & (tokens.c.label == label)
            ended = connection.execute(update(tokens).where(chosen, tokens.c.revoked.is_(None)).values(revoked=now()))
            if ended.rowcount == 0:
                raise NotFound(f"`{user}` has no working token `{label}`", user=user, label=label)
            events.record(connection, None, "token.revoke", user, label=label)

    def tokens(self, user: str) -> list[Token]:
        """What is known of the tokens of `user`, newest first."""
        bound = accounts.alias()
        with self._database.read() as connection:
            query = (
                select(tokens, bound.c.name.label("org"))
                .join(bound, bound.c.id == tokens.c.bound_to, isouter=True)
                .where(tokens.c.account == account_row(connection, user, "user").id)
                .order_by(tokens.c.id.desc())
            )
            return [
                Token(
                    row.label,
                    row.scope,
                    row.org,
                    moment(row.created),
                    _maybe_moment(row.expires),
                    _maybe_moment(row.revoked),
                )
                for row in connection.execute(query)
            ]


def actor_of(connection: Connection, chosen: ColumnElement[bool]) -> Actor | None:
    """Whom the one token that is `chosen` speaks for, or None where there is none, or it works no more."""
    bound = accounts.alias()
    query = (
        select(tokens.c.scope, accounts.c.id, accounts.c.name, accounts.c.operator, bound.c.name.label("bound_to"))
        .join(accounts, accounts.c.id == tokens.c.account)
        .join(bound, bound.c.id == tokens.c.bound_to, isouter=True)
        .where(chosen, tokens.c.revoked.is_(None), tokens.c.expires.is_(None) | (tokens.c.expires > now()))
    )
    row = connection.execute(query).first()
    return row and Actor(row.name, row.scope, roles_of(connection, row.id), row.bound_to, row.operator)


def secret_digest(secret: str) -> str:
    """The SHA-256 that a token or a session is known by: itself it is not kept."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _maybe_moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else moment(microseconds)
