"""Who changed what, and when: one row for each change, written in the transaction of the change itself.

It outlives what it tells of, and nothing here changes or deletes a row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from kernelworks_server.database.engine import Database, moment, now
from kernelworks_server.database.tables import events

__all__ = ["REGISTRY", "Event", "latest", "read", "record"]

REGISTRY = "(registry)"
"""The subject of what is done to the whole registry; nobody can have this name."""


@dataclass(frozen=True)
class Event:
    """One change.

    Attributes:
        time: When.
        actor: The user who did it, or None: somebody at the machine itself.
        action: What was done, such as `kernel.create`, `commit` or `token.revoke`.
        subject: The repository, user or organisation that it was done to.
        commit: What stands there since then, where that is a commit.
        details: What else there is to know, by name.
    """

    time: datetime
    actor: str | None
    action: str
    subject: str
    commit: str | None
    details: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The event as one JSON object."""
        own = {"actor": self.actor, "action": self.action, "subject": self.subject, "commit": self.commit}
        return {"time": self.time.isoformat(), **own, "details": self.details}


def record(
    connection: Connection, actor: str | None, action: str, subject: str, *, commit: str | None = None, **details: Any
) -> None:
    """Add one event; it is there if the transaction is, and only then."""
    told = {"action": action, "subject": subject, "subject_key": subject.lower(), "commit": commit}
    row = {**told, "actor": actor, "details": json.dumps(details), "time": now()}
    connection.execute(insert(events).values(**row))


def latest(connection: Connection, action: str, subject: str, **details: Any) -> int | None:
    """When just this was told last, as `database.engine.now` counts, or None where it never was."""
    same = (events.c.subject_key == subject.lower()) & (events.c.action == action)
    query = select(func.max(events.c.time)).where(same, events.c.details == json.dumps(details))
    time: int | None = connection.scalar(query)
    return time


def read(database: Database, *, subject: str | None = None, limit: int) -> list[Event]:
    """The latest events, newest first; those of one subject, in any case, where it is given."""
    query = select(events).order_by(events.c.id.desc()).limit(limit)
    if subject is not None:
        query = query.where(events.c.subject_key == subject.lower())
    with database.read() as connection:
        return [
            Event(moment(row.time), row.actor, row.action, row.subject, row.commit, json.loads(row.details))
            for row in connection.execute(query)
        ]
