"""Which revision a database's tables are at, and how they get to another one."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from kernelworks.errors import HostError

__all__ = ["current", "migrate"]

_MIGRATIONS = Path(__file__).with_name("migrations")
_HEAD = "head"
_LOCK = 7_162_631  # any number that no other program asks PostgreSQL for


def current(connection: Connection) -> str | None:
    """The revision that the tables are at, or None where there are none."""
    return MigrationContext.configure(connection).get_current_revision()


def migrate(connection: Connection, revision: str = _HEAD) -> None:
    """Bring the tables to `revision`, or leave them where they are beyond; of many that do it at once, one does.

    Args:
        connection: In a transaction that writes.
        revision: One that this program knows; the latest where nothing is said.

    Raises:
        HostError: `revision`, or what the tables are at, is of a later program.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if unknown := {current(connection) or revision, revision} - known - {_HEAD}:
        raise HostError(
            f"the schema `{', '.join(sorted(unknown))}` was made by a later version of this program, which knows up to"
            f" `{max(known)}`",
            hint="upgrade `kernelworks`",
        )
    command.upgrade(config, revision)
