"""Users, organisations, and who is a member where."""

from __future__ import annotations

import re

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from kernelworks_server import events
from kernelworks_server.accounts import Account, account_of, account_row, roles_of
from kernelworks_server.database.engine import Database, now, upsert
from kernelworks_server.database.tables import accounts, memberships
from kernelworks_server.errors import BadRequest, Conflict, NotFound
from kernelworks_server.rights import check_role
from kernelworks_server.tokens import Tokens

__all__ = ["RESERVED", "People"]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,94}[A-Za-z0-9]|[A-Za-z0-9]", re.ASCII)
RESERVED = frozenset(
    {"api", "datasets", "docs", "healthz", "kernels", "login", "logout", "metrics", "models", "pages", "search"}
    | {"settings", "simple", "spaces", "static", "v1", "v2", "whoami", "xet"}
)
"""First parts of this registry's own addresses, in lower case: nobody has one as a name."""
_FIRST_OPERATOR = "admin"


class People:
    """All users and organisations of one registry; what is done with their tokens hangs here by the same name."""

    def __init__(self, database: Database) -> None:
        self._database = database
        held = Tokens(database)
        self.actor, self.tokens = held.actor, held.tokens
        self.create_token, self.revoke = held.create_token, held.revoke

    def account(self, name: str) -> Account:
        """The user or organisation of this name, in any case.

        Raises:
            NotFound: There is none.
        """
        with self._database.read() as connection:
            return account_of(account_row(connection, name))

    def organisation(self, name: str) -> Account:
        """The organisation of this name, in any case.

        Raises:
            NotFound: There is none.
        """
        with self._database.read() as connection:
            return account_of(account_row(connection, name, "org"))

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
            return [account_of(row) for row in rows]

    def memberships(self, user: str) -> dict[str, str]:
        """The role of `user` in each organisation that they are a member of."""
        with self._database.read() as connection:
            return roles_of(connection, account_row(connection, user, "user").id)

    def members(self, org: str) -> dict[str, str]:
        """The role of each member of `org`."""
        with self._database.read() as connection:
            query = (
                select(accounts.c.name, memberships.c.role)
                .join(memberships, memberships.c.member == accounts.c.id)
                .where(memberships.c.org == account_row(connection, org, "org").id)
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
                return account_of(account_row(connection, name))
        except IntegrityError as error:
            raise Conflict(f"a user or organisation `{name}` exists already", name=name) from error

    def add_member(self, org: str, user: str, role: str) -> None:
        """Let `user` be a member of `org` with this role, whatever they were before.

        Raises:
            BadRequest: No such role.
            NotFound: No such organisation or user.
        """
        check_role(role)
        with self._database.write() as connection:
            membership = {
                "org": account_row(connection, org, "org").id,
                "member": account_row(connection, user, "user").id,
            }
            upsert(connection, memberships, [{**membership, "role": role}], update=["role"])
            events.record(connection, None, "member.set", org, user=user, role=role)

    def remove_member(self, org: str, user: str) -> None:
        """Let `user` be no member of `org`.

        Raises:
            NotFound: No such organisation, user or membership.
        """
        with self._database.write() as connection:
            chosen = (memberships.c.org == account_row(connection, org, "org").id) & (
                memberships.c.member == account_row(connection, user, "user").id
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
            chosen = accounts.c.id == account_row(connection, org, "org").id
            connection.execute(update(accounts).where(chosen).values(trusted=trusted))
            events.record(connection, None, "org.trust", org, trusted=trusted)
