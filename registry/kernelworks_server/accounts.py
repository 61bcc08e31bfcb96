"""Users and organisations as the database has them: found by their names, in any case."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from kernelworks_server.database.engine import moment
from kernelworks_server.database.tables import accounts, memberships
from kernelworks_server.errors import NotFound

__all__ = ["Account", "account_of", "account_row", "roles_of"]


@dataclass(frozen=True)
class Account:
    """A `user` or an `org`; `trusted` marks an organisation whose kernels clients load without asking."""

    name: str
    kind: str
    fullname: str
    trusted: bool
    operator: bool
    created: datetime


def account_row(connection: Connection, name: str, kind: str | None = None) -> Row[Any]:
    """The row of the user or organisation of this name, in any case.

    Raises:
        NotFound: There is none, or none of this kind.
    """
    row = connection.execute(select(accounts).where(accounts.c.name_key == name.lower())).first()
    if row is None or kind not in {None, row.kind}:
        what = {"user": "user", "org": "organisation", None: "user or organisation"}[kind]
        raise NotFound(f"no {what} is called `{name[:200]}`", name=name)
    return row


def roles_of(connection: Connection, user: int) -> dict[str, str]:
    """The role of the user with this number in each organisation that they are a member of."""
    query = (
        select(accounts.c.name, memberships.c.role)
        .join(memberships, memberships.c.org == accounts.c.id)
        .where(memberships.c.member == user)
        .order_by(accounts.c.name)
    )
    return {row.name: row.role for row in connection.execute(query)}


def account_of(row: Row[Any]) -> Account:
    """What a row of the table says."""
    return Account(row.name, row.kind, row.fullname, row.trusted, row.operator, moment(row.created))
