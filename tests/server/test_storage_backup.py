"""A registry goes into an archive while it is used, and comes out of it as it was, whatever it is kept in."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from sqlalchemy import inspect, select

from kernelworks.errors import HostError, KernelworksError, UsageError, VerifyError
from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks_server import archive, backup, events
from kernelworks_server.archive import Archive, Contents, Header
from kernelworks_server.blobs import open_store
from kernelworks_server.collect import collect
from kernelworks_server.database import schema, tables
from kernelworks_server.database.engine import Database
from kernelworks_server.errors import Conflict
from kernelworks_server.records import AddFile, Repo
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services, open_services

if TYPE_CHECKING:
    from conftest import Backing

PROGRAM = [sys.executable, "-c", "from kernelworks_server.cli import main; main()"]


@pytest.fixture
def actor(services: Services) -> Actor:
    services.people.create_user("ann", fullname="Änn")
    services.people.create_org("acme")
    services.people.add_member("acme", "ann", "write")
    return services.people.actor(services.people.create_token("ann", label="ci", scope="admin"))


@pytest.fixture
def repo(services: Services, actor: Actor) -> Repo:
    """With a branch, a tag, and files that are small, empty, larger than a chunk, and gone from the head."""
    made = services.repositories.create(actor, "kernel", "acme/relu", private=True)
    for number, data in enumerate((b"small", b"", b"\0large" * 400_000)):
        commit(services, actor, made, f"d/{number}", data)
    services.repositories.create_branch(actor, made, "v1", None)
    services.repositories.create_tag(actor, made, "first", "v1", "the first")
    commit(services, actor, made, "d/0", b"other")
    return made


def commit(services: Services, actor: Actor, repo: Repo, path: str, data: bytes) -> str:
    added = AddFile(path, *services.repositories.receive(repo, [data], expected=None, limit=10 << 20), lfs=True)
    return services.repositories.commit(actor, repo, "main", [added], message="m", description="", parent=None)


def rows(services: Services) -> dict[str, list[dict[str, Any]]]:
    with services.database.read() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
            for table in tables.metadata.sorted_tables
        }


def exported(services: Services, path: Path) -> Contents:
    return backup.export(services.database, services.blobs, path)


@pytest.mark.parametrize("kind", ["sqlite+folder", "postgresql+s3"])
@pytest.mark.backing("sqlite+folder", "postgresql+s3")
def test_a_registry_is_the_same_after_it_was_exported_and_imported(
    services: Services, actor: Actor, repo: Repo, tmp_path: Path, new_backing: Callable[..., Backing], kind: str
) -> None:
    token = services.people.create_token("ann", label="other", scope="write")
    written = exported(services, tmp_path / "archive")
    before = rows(services)
    config = new_backing(kind, empty=True).config(tmp_path / "new")

    read = backup.restore(config, tmp_path / "archive")

    again = open_services(config)
    after = rows(again)
    assert after["events"].pop()["action"] == "registry.import"
    assert after == before
    assert read == written == Contents(sum(map(len, before.values())), 4, 2_400_010)
    assert again.people.actor(token).name == "ann"
    head = again.repositories.resolve_revision(repo, "first")
    entries, _ = again.repositories.tree(repo, head, "d", recursive=True, after=None, limit=10)
    assert [b"".join(again.blobs.read(entry.sha256)) for entry in entries] == [b"small", b"", b"\0large" * 400_000]
    assert again.repositories.create(actor, "kernel", "acme/new", private=False).id > repo.id
    assert again.config.secret != services.config.secret
    again.close()


def test_every_table_goes_along_whatever_tables_there_are(services: Services, tmp_path: Path) -> None:
    exported(services, tmp_path / "archive")
    assert set(Archive(tmp_path / "archive").header.tables) == set(tables.metadata.tables)


def test_what_only_an_uploading_client_knows_of_stays_behind(services: Services, repo: Repo, tmp_path: Path) -> None:
    services.repositories.receive(repo, [b"waiting"], expected=None, limit=10)
    services.repositories.receive_xorb(repo, "ab" * 32, [b"xorb"], limit=10)
    exported(services, tmp_path / "archive")
    read = Archive(tmp_path / "archive")
    assert list(read.rows("xorbs")) == []
    assert all(row["committed"] for row in read.rows("holdings"))
    assert {sha256 for sha256, _, _ in read.blobs()}.isdisjoint({hash_bytes(b"waiting"), hash_bytes(b"xorb")})


@pytest.mark.usefixtures("repo")
def test_any_tar_program_reads_an_archive_and_nobody_but_its_owner_may(services: Services, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    exported(services, path)
    with tarfile.open(path) as tar:
        small = tar.extractfile(f"blobs/{hash_bytes(b'small')}")
        assert small is not None
        assert small.read() == b"small"
        assert tar.getnames()[0] == "archive.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.backing("sqlite+folder", "postgresql+folder")
def test_an_archive_is_the_registry_at_one_moment_while_others_commit(
    services: Services, actor: Actor, repo: Repo, tmp_path: Path, new_backing: Callable[..., Backing]
) -> None:
    done = threading.Event()
    committed = []

    def work() -> None:
        for number in itertools.count():
            committed.append(commit(services, actor, repo, f"w/{number}", b"%d" % number))
            if done.is_set():
                return

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for path in (tmp_path / "1", tmp_path / "2"):
            count = len(committed)
            while len(committed) < count + 3 and worker.is_alive():
                done.wait(0.01)
            exported(services, path)
    finally:
        done.set()
        worker.join()

    for path in (tmp_path / "1", tmp_path / "2"):
        config = new_backing("sqlite+folder").config(tmp_path / f"new {path.name}")
        backup.restore(config, path)
        again = open_services(config)
        head = again.repositories.resolve_revision(repo, "main")
        assert head in committed
        entries, _ = again.repositories.tree(repo, head, "w", recursive=True, after=None, limit=1_000)
        assert len(entries) == committed.index(head) + 1
        for entry in entries:
            assert b"".join(again.blobs.read(entry.sha256)) == entry.path.removeprefix("w/").encode()
        again.close()


def test_garbage_collection_leaves_what_is_being_exported(
    services: Services, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = backup._copy_blobs

    def delete_first(*arguments: Any) -> list[int]:
        services.repositories.delete(services.people.actor(services.people.begin()), "kernel", repo.repo_id)
        assert collect(services.database, services.blobs, timedelta(hours=1), timedelta(hours=1)).blobs == 0
        return copy(*arguments)

    with services.database.write() as connection:  # they were uploaded long ago
        connection.execute(tables.blobs.update().values(touched=0))
    monkeypatch.setattr(backup, "_copy_blobs", delete_first)
    assert exported(services, tmp_path / "archive").blobs == 4
    assert backup.check(tmp_path / "archive").blobs == 4


@pytest.mark.usefixtures("repo")
def test_a_store_that_lost_files_is_not_exported_and_the_old_archive_stays(services: Services, tmp_path: Path) -> None:
    path = tmp_path / "archive"
    exported(services, path)
    before = path.read_bytes()
    objects = open_store(services.config.store).objects
    lost, changed = hash_bytes(b"small"), hash_bytes(b"other")
    obstore.delete(objects, f"sha256/{lost[:2]}/{lost}")
    obstore.put(objects, f"sha256/{changed[:2]}/{changed}", b"OTHER")
    with pytest.raises(VerifyError) as caught:
        exported(services, path)
    assert len(caught.value.context["faults"]) == 2
    assert lost in str(caught.value)
    assert changed in str(caught.value)
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["archive", "registry"]


def part(data: bytes, name: str) -> slice:
    """Where the data of a part of an archive lies."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        info = tar.getmember(name)
        return slice(info.offset_data, info.offset_data + info.size)


def nothing_written(root: Path) -> bool:
    return not (root / "objects").exists() or not any(path.is_file() for path in (root / "objects").rglob("*"))


@pytest.mark.parametrize("cut", [0, 100, 511, 512, 1_000, 0.1, 0.5, 0.9])
@pytest.mark.usefixtures("repo")
def test_an_archive_that_is_cut_short_is_refused(services: Services, tmp_path: Path, cut: float) -> None:
    path = tmp_path / "archive"
    exported(services, path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * cut) if cut < 1 else int(cut)])
    config = services.config
    with pytest.raises(VerifyError):
        backup.restore(dataclasses.replace(config, **urls(tmp_path / "new")), path)
    assert nothing_written(tmp_path / "new")


def urls(root: Path) -> dict[str, str]:
    root.mkdir()
    return {"database": f"sqlite:///{root}/registry.sqlite", "store": (root / "objects").as_uri()}


@pytest.mark.usefixtures("repo")
def test_every_part_of_an_archive_that_is_damaged_is_told(
    services: Services, tmp_path: Path, new_backing: Callable[..., Backing]
) -> None:
    path = tmp_path / "archive"
    exported(services, path)
    whole = path.read_bytes()
    small, other = hash_bytes(b"small"), hash_bytes(b"other")
    config = new_backing("sqlite+folder").config(tmp_path / "new")
    for names, told in (
        ([f"blobs/{small}", f"blobs/{other}"], {f"blob `{small}`", f"blob `{other}`"}),
        (["tables/repos.jsonl", "tables/blobs.jsonl"], {"table `repos`", "table `blobs`"}),
    ):
        data = bytearray(whole)
        for name in names:
            data[part(whole, name).start + 3] ^= 1
        path.write_bytes(data)
        with pytest.raises(VerifyError) as caught:
            backup.restore(config, path)
        assert {fault.removesuffix(" is not what was archived") for fault in caught.value.context["faults"]} == told
        assert nothing_written(tmp_path / "new")
    path.write_bytes(whole)
    backup.restore(config, path)  # into what the refused ones left: nothing


NEGATIVE = tarfile.TarInfo("archive.json")
NEGATIVE.size = -512


@pytest.mark.parametrize(
    "start",
    [b"", b"text, and no archive", bytes(2_000), b"\xff" * 2_000, NEGATIVE.tobuf(tarfile.GNU_FORMAT) + bytes(512)],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "archive").write_bytes(start)
    with pytest.raises(VerifyError):
        Archive(tmp_path / "archive")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"{}", VerifyError),
        (b"[]", VerifyError),
        (b"\xff", VerifyError),
        (b'{"format": 1}', VerifyError),
        (b'{"format": 2, "schema": "0001"}', UsageError),
    ],
)
def test_a_header_that_says_something_else_is_refused(
    tmp_path: Path, data: bytes, error: type[KernelworksError]
) -> None:
    with archive.create(tmp_path / "archive") as writer:
        writer._add("archive.json", len(data), [data])
    with pytest.raises(error):
        Archive(tmp_path / "archive")


@pytest.mark.backing("sqlite+folder", "postgresql+s3")
@pytest.mark.usefixtures("repo")
def test_nothing_is_imported_over_a_registry_or_its_files(
    services: Services, tmp_path: Path, new_backing: Callable[..., Backing]
) -> None:
    exported(services, tmp_path / "archive")
    before = rows(services)
    empty = new_backing("sqlite+folder").config(tmp_path / "new")
    for config in (
        services.config,
        dataclasses.replace(empty, database=services.config.database),
        dataclasses.replace(empty, store=services.config.store),
    ):
        with pytest.raises(Conflict, match="a registry here already"):
            backup.restore(config, tmp_path / "archive")
    assert rows(services) == before


def small_archive(path: Path, revision: str) -> None:
    """An archive of the first schema, which had no events, with one user."""
    user = {"id": 7, "name": "Ann", "name_key": "ann", "kind": "user", "fullname": "Ann", "trusted": False}
    lines = canonical_json({**user, "operator": True, "created": 1})
    parts = {"blobs": b"", "trees": b"", "accounts": lines}
    with archive.create(path) as writer:
        writer.header(Header(revision, "2026-01-01", "1", {name: hash_bytes(data) for name, data in parts.items()}))
        for name, data in sorted(parts.items()):
            writer.table(name, io.BytesIO(data))


@pytest.mark.parametrize("kind", ["sqlite+folder", "postgresql+folder"])
def test_an_archive_of_an_earlier_schema_is_brought_to_the_present_one(
    tmp_path: Path, new_backing: Callable[..., Backing], kind: str
) -> None:
    small_archive(tmp_path / "archive", "0001")
    config = new_backing(kind, empty=True).config(tmp_path / "new")
    backup.restore(config, tmp_path / "archive")
    services = open_services(config)
    assert services.people.account("ann").operator
    services.people.create_user("bob")
    assert [row["id"] for row in rows(services)["accounts"]] == [7, 8]
    assert [event.action for event in events.read(services.database, limit=10)] == ["user.create", "registry.import"]
    services.close()


@pytest.mark.parametrize("kind", ["sqlite+folder", "postgresql+folder"])
def test_an_archive_of_a_later_schema_is_refused_and_leaves_nothing(
    tmp_path: Path, new_backing: Callable[..., Backing], kind: str
) -> None:
    small_archive(tmp_path / "archive", "9999")
    config = new_backing(kind, empty=True).config(tmp_path / "new")
    with pytest.raises(HostError, match="`9999` was made by a later version"):
        backup.restore(config, tmp_path / "archive")
    database = Database(config.database)
    with database.read() as connection:
        assert inspect(connection).get_table_names() == []
    database.close()


def test_a_database_of_a_later_program_is_left_alone(services: Services) -> None:
    with services.database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(HostError, match="upgrade"):
        open_services(services.config)
    with services.database.read() as connection:
        assert schema.current(connection) == "9999"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("repo")
def test_the_program_exports_proves_and_imports(services: Services, tmp_path: Path) -> None:
    path, new = tmp_path / "archive", tmp_path / "new"
    done = run("export", "--root", str(services.config.root), "--out", str(path), "--json")
    proved = run("import", "--check", str(path), "--json")
    read = run("import", str(path), "--root", str(new), "--json")
    again = run("import", str(path), "--root", str(new))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(proved.stdout) == json.loads(read.stdout)
    assert json.loads(read.stdout)["blobs"] == 4
    assert again.returncode == 30
    assert "a registry here already" in again.stderr
    log = json.loads(run("log", "--root", str(new), "--json", "--limit", "2").stdout)["events"]
    assert [event["action"] for event in log] == ["registry.import", "registry.export"]
