"""Users, organisations, who is a member where, and the tokens that speak for users."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from kernelworks_server import events
from kernelworks_server.database.engine import Database, moment, now, upsert
from kernelworks_server.database.tables import accounts, memberships, tokens
from kernelworks_server.errors import BadRequest, Conflict, InvalidToken, NotFound
from kernelworks_server.rights import ANONYMOUS, RANKS, Actor

__all__ = ["RESERVED", "ROLES", "Account", "People", "Token", "actor_of", "secret_digest"]

ROLES = tuple(role for role, rank in RANKS.items() if rank)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,94}[A-Za-z0-9]|[A-Za-z0-9]", re.ASCII)
RESERVED = frozenset(
    {"api", "datasets", "docs", "healthz", "kernels", "login", "logout", "metrics", "models", "pages", "search"}
    | {"settings", "simple", "spaces", "static", "v1", "v2", "whoami", "xet"}
)
"""First parts of this registry's own addresses, in lower case: nobody has one as a name."""
_FIRST_OPERATOR = "admin"
_TOKEN_BYTES = 30
_LONGEST_LABEL = 100


@dataclass(frozen=True)
class Account:
    """A `user` or an `org`; `trusted` marks an organisation whose kernels clients load without asking."""

    name: str
    kind: str
    fullname: str
    trusted: bool
    operator: bool
    created: datetime


@dataclass(frozen=True)
class Token:
    """What is known of a token; the token itself is not: only its SHA-256 is kept."""

    label: str
    scope: str
    org: str | None
    created: datetime
    expires: datetime | None
    revoked: datetime | None


class People:
    """All users and organisations of one registry."""

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

    def account(self, name: str) -> Account:
        """The user or organisation of this name, in any case.

        Raises:
            NotFound: There is none.
        """
        with self._database.read() as connection:
            return _account(_row(connection, name))

    def organisation(self, name: str) -> Account:
        """The organisation of this name, in any case.

        Raises:
            NotFound: There is none.
        """
        with self._database.read() as connection:
            return _account(_row(connection, name, "org"))

    def begin(self) -> str | None:
        """The token of the first operator, `admin`, who is made where there is no operator yet; otherwise None."""
        with self._database.read() as connection:
            if connection.scalar(select(accounts.c.id).where(accounts.c.operator).limit(1)) is not None:
                return None
        try:
            self.create_user(_FIRST_OPERATOR, fullname="operator", operator=True)
        except Conflict:  # another process starts at the same time and tells it, or somebody else has this name
            return None
        return self.create_token(_FIRST_OPERATOR, label="first start", scope="admin")

    def accounts(self, kind: str) -> list[Account]:
        """Every `user` or every `org`, by name."""
        with self._database.read() as connection:
            rows = connection.execute(select(accounts).where(accounts.c.kind == kind).order_by(accounts.c.name_key))
            return [_account(row) for row in rows]

    def memberships(self, user: str) -> dict[str, str]:
        """The role of `user` in each organisation that they are a member of."""
        with self._database.read() as connection:
            return _roles(connection, _row(connection, user, "user").id)

    def members(self, org: str) -> dict[str, str]:
        """The role of each member of `org`."""
        with self._database.read() as connection:
            query = (
                select(accounts.c.name, memberships.c.role)
                .join(memberships, memberships.c.member == accounts.c.id)
                .where(memberships.c.org == _row(connection, org, "org").id)
                .order_by(accounts.c.name)
            )
            return {row.name: row.role for row in connection.execute(query)}

    def create_user(self, name: str, *, fullname: str = "", operator: bool = False) -> Account:
        """A new user; an operator's unbound tokens of scope `admin` may do everything on this registry.

        Raises:
            BadRequest: Not a name that an account can have.
            Conflict: A user or organisation has it.
        """
        return self._create(name, "user", fullname, operator=operator)

    def create_org(self, name: str, *, fullname: str = "") -> Account:
        """A new organisation without members; raises as `create_user` does."""
        return self._create(name, "org", fullname, operator=False)

    def _create(self, name: str, kind: str, fullname: str, *, operator: bool) -> Account:
        if not _NAME.fullmatch(name) or name.lower() in RESERVED:
            raise BadRequest(
                f"`{name[:200]}` is not a name that a user or organisation can have",
                hint="ASCII letters, digits, `-`, `_` and single `.` inside, and none of this registry's own addresses",
                name=name,
            )
        values = {"name": name, "name_key": name.lower(), "kind": kind, "fullname": fullname or name}
        try:
            with self._database.write() as connection:
                connection.execute(insert(accounts).values(**values, trusted=False, operator=operator, created=now()))
                events.record(connection, None, f"{kind}.create", name, operator=operator)
                return _account(_row(connection, name))
        except IntegrityError as error:
            raise Conflict(f"a user or organisation `{name}` exists already", name=name) from error

    def add_member(self, org: str, user: str, role: str) -> None:
        """Let `user` be a member of `org` with this role, whatever they were before.

        Raises:
            BadRequest: No such role.
            NotFound: No such organisation or user.
        """
        _check_role(role)
        with self._database.write() as connection:
            membership = {"org": _row(connection, org, "org").id, "member": _row(connection, user, "user").id}
            upsert(connection, memberships, [{**membership, "role": role}], update=["role"])
            events.record(connection, None, "member.set", org, user=user, role=role)

    def remove_member(self, org: str, user: str) -> None:
        """Let `user` be no member of `org`.

        Raises:
            NotFound: No such organisation, user or membership.
        """
        with self._database.write() as connection:
            chosen = (memberships.c.org == _row(connection, org, "org").id) & (
                memberships.c.member == _row(connection, user, "user").id
            )
            if connection.execute(delete(memberships).where(chosen)).rowcount == 0:
                raise NotFound(f"`{user}` is no member of `{org}`", org=org, user=user)
            events.record(connection, None, "member.remove", org, user=user)

    def set_trusted(self, org: str, trusted: bool) -> None:
        """Let clients load the kernels of `org` without asking, or not.

        Raises:
            NotFound: No such organisation.
        """
        with self._database.write() as connection:
            chosen = accounts.c.id == _row(connection, org, "org").id
            connection.execute(update(accounts).where(chosen).values(trusted=trusted))
            events.record(connection, None, "org.trust", org, trusted=trusted)

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
        _check_role(scope)
        if not label.isprintable() or not 0 < len(label) <= _LONGEST_LABEL:
            raise BadRequest(f"a token's label is one line of at most {_LONGEST_LABEL} characters", label=label)
        token = f"kw_{secrets.token_urlsafe(_TOKEN_BYTES)}"
        created = now()
        expires = None if lifetime is None else created + lifetime // timedelta(microseconds=1)
        with self._database.write() as connection:
            values: dict[str, Any] = {
                "account": _row(connection, user, "user").id,
                "bound_to": None if org is None else _row(connection, org).id,
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
            chosen = (tokens.c.account == _row(connection, user, "user").id) & (tokens.c.label == label)
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
                .where(tokens.c.account == _row(connection, user, "user").id)
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
    return row and Actor(row.name, row.scope, _roles(connection, row.id), row.bound_to, row.operator)


def secret_digest(secret: str) -> str:
    """The SHA-256 that a token or a session is known by: itself it is not kept."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise BadRequest(f"`{role[:40]}` is not one of {', '.join(ROLES)}", role=role)


def _row(connection: Connection, name: str, kind: str | None = None) -> Row[Any]:
    row = connection.execute(select(accounts).where(accounts.c.name_key == name.lower())).first()
    if row is None or kind not in {None, row.kind}:
        what = {"user": "user", "org": "organisation", None: "user or organisation"}[kind]
        raise NotFound(f"no {what} is called `{name[:200]}`", name=name)
    return row


def _roles(connection: Connection, user: int) -> dict[str, str]:
    query = (
        select(accounts.c.name, memberships.c.role)
        .join(memberships, memberships.c.org == accounts.c.id)
        .where(memberships.c.member == user)
        .order_by(accounts.c.name)
    )
    return {row.name: row.role for row in connection.execute(query)}


def _account(row: Row[Any]) -> Account:
    return Account(row.name, row.kind, row.fullname, row.trusted, row.operator, moment(row.created))


def _maybe_moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else moment(microseconds)
