"""The database: its schema comes from the migrations, and SQLite runs as crashes and many threads need it."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from kernelworks.errors import UsageError
from kernelworks_server.config import open_config
from kernelworks_server.database.engine import Database
from kernelworks_server.database.tables import metadata
from kernelworks_server.errors import BadRequest
from kernelworks_server.rights import ANONYMOUS
from kernelworks_server.services import Services, open_services

BOTH = pytest.mark.backing("sqlite+folder", "postgresql+folder")


@BOTH
def test_the_migrations_make_the_tables_that_the_code_knows(services: Services) -> None:
    with services.database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


@BOTH
def test_a_database_that_is_up_to_date_is_left_alone(services: Services) -> None:
    services.people.create_user("alice")
    again = open_services(services.config)
    assert again.people.account("alice").name == "alice"
    again.close()


def test_sqlite_waits_for_the_disk_and_minds_foreign_keys(services: Services) -> None:
    with services.database.read() as connection:
        pragmas = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("journal_mode", "synchronous")
        ]
        assert pragmas == ["wal", 2]
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1


def test_two_processes_that_start_at_once_make_one_schema_and_one_secret(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from kernelworks_server.config import open_config\n"
        "from kernelworks_server.services import open_services\n"
        "services = open_services(open_config(pathlib.Path(sys.argv[1])))\n"
        "print(services.config.secret.hex(), services.people.begin() is not None)\n"
        "services.close()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "new")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate()[0].split() for process in running]
    assert len({secret for secret, _ in outputs}) == 1
    assert sorted(told for _, told in outputs) == ["False", "False", "True"]


def test_the_folder_and_its_secret_are_for_their_owner_only(tmp_path: Path) -> None:
    config = open_config(tmp_path / "new")
    assert stat.S_IMODE(config.root.stat().st_mode) == 0o700
    assert stat.S_IMODE((config.root / "secret").stat().st_mode) == 0o600
    assert config.secret.hex() not in repr(config)


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    opened = open_services(open_config(tmp_path / "a b?c#d%20é"))
    digest, _ = opened.blobs.put([b"1"], expected=None, limit=1)
    opened.close()
    assert (tmp_path / "a b?c#d%20é" / "objects" / "sha256" / digest[:2] / digest).read_bytes() == b"1"
    assert (tmp_path / "a b?c#d%20é" / "registry.sqlite").exists()


@BOTH
def test_half_a_character_from_a_client_is_its_fault(services: Services) -> None:
    with pytest.raises(BadRequest, match="no text"):
        services.repositories.search(ANONYMOUS, kind="kernel", text="\ud800")


@pytest.mark.backing("postgresql+folder")
def test_a_character_that_the_database_cannot_hold_is_the_fault_of_the_client(services: Services) -> None:
    with pytest.raises(BadRequest, match="no text"):
        services.people.create_org("acme", fullname="\0")


def test_a_database_that_no_registry_can_use_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="`mysql` is no database for a registry"):
        Database("mysql://host/name")
