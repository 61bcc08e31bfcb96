"""Garbage collection: it takes what nobody refers to, when it is old, and never what somebody is about to commit."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from kernelworks_server import events
from kernelworks_server.collect import Collected, collect
from kernelworks_server.config import Limits
from kernelworks_server.database import engine, tables
from kernelworks_server.errors import Conflict, Unprocessable
from kernelworks_server.hub import xet
from kernelworks_server.records import AddFile, DeleteFile, Repo
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services

pytestmark = pytest.mark.backing("sqlite+folder", "postgresql+s3")

UPLOAD_WITHOUT_END = """
import pathlib, sys, time
from kernelworks_server.config import open_config
from kernelworks_server.services import open_services

def chunks():
    yield b"x" * (30 << 20)
    incoming = pathlib.Path(sys.argv[1], "objects", "incoming")
    while not any(path.stat().st_size for path in incoming.glob("*")):
        time.sleep(0.01)
    print("written", flush=True)
    time.sleep(600)

open_services(open_config(pathlib.Path(sys.argv[1]))).blobs.put(chunks(), expected=None, limit=1 << 30)
"""
NO_TIME = timedelta(0)
DAY = timedelta(days=1)
NOTHING = Collected(blobs=0, bytes=0, uploads=0, xorbs=0, branches=0, remains=0)


@pytest.fixture
def actor(services: Services) -> Actor:
    return services.people.actor(services.people.begin())


@pytest.fixture
def repo(services: Services, actor: Actor) -> Repo:
    return services.repositories.create(actor, "kernel", "admin/relu", private=False)


def collected(services: Services, grace: timedelta = NO_TIME, xorb_age: timedelta = DAY) -> Collected:
    return collect(services.database, services.blobs, grace, xorb_age)


def upload(services: Services, repo: Repo, data: bytes) -> AddFile:
    return AddFile("file", *services.repositories.receive(repo, [data], expected=None, limit=1 << 20), lfs=True)


def commit(services: Services, actor: Actor, repo: Repo, *operations: AddFile | DeleteFile) -> str:
    return services.repositories.commit(actor, repo, "main", operations, message="m", description="", parent=None)


def test_an_upload_that_no_commit_came_for_is_deleted_when_it_is_old(services: Services, repo: Repo) -> None:
    sha256 = upload(services, repo, b"12345").sha256
    assert collected(services, DAY) == NOTHING
    assert services.blobs.size(sha256) == 5
    assert collected(services) == replace(NOTHING, blobs=1, bytes=5, uploads=1)
    assert services.blobs.size(sha256) is None


def test_what_was_ever_committed_stays_even_where_a_later_commit_deletes_it(
    services: Services, actor: Actor, repo: Repo
) -> None:
    added = upload(services, repo, b"12345")
    commit(services, actor, repo, added)
    commit(services, actor, repo, DeleteFile("file"))
    assert collected(services) == NOTHING
    assert services.blobs.size(added.sha256) == 5


def test_a_blob_goes_with_the_last_repository_that_has_it(services: Services, actor: Actor, repo: Repo) -> None:
    other = services.repositories.create(actor, "kernel", "admin/gelu", private=False)
    added = upload(services, repo, b"12345")
    upload(services, other, b"12345")
    for place in (repo, other):
        commit(services, actor, place, added)
    services.repositories.delete(actor, "kernel", repo.repo_id)
    assert collected(services).blobs == 0
    services.repositories.delete(actor, "kernel", other.repo_id)
    assert collected(services).blobs == 1


def test_xorbs_go_with_their_repository(services: Services, actor: Actor, repo: Repo) -> None:
    services.repositories.receive_xorb(repo, "ab" * 32, [b"xorb"], limit=10)
    assert collected(services).blobs == 0
    services.repositories.delete(actor, "kernel", repo.repo_id)
    assert collected(services).blobs == 1


def test_xorbs_go_when_clients_refer_to_them_no_more(services: Services, repo: Repo) -> None:
    services.repositories.receive_xorb(repo, "ab" * 32, [b"xorb"], limit=10)
    assert collected(services, xorb_age=DAY) == NOTHING
    assert collected(services, xorb_age=NO_TIME) == replace(NOTHING, xorbs=1, blobs=1, bytes=4)
    assert services.repositories.xorb(repo, "ab" * 32) is None
    assert services.repositories.receive_xorb(repo, "ab" * 32, [b"xorb"], limit=10)


def test_clients_may_refer_to_xorbs_for_less_time_than_they_are_kept() -> None:
    assert timedelta(seconds=2 * xet._PERIOD + xet._SECONDS) < Limits().xorb_age


def test_branches_that_killed_publishers_worked_on_are_deleted_after_a_day(
    services: Services, actor: Actor, repo: Repo
) -> None:
    killed, working, own = "incoming-v1-0123abcd", "incoming-v1-abcd0123", "incoming-v1"
    for name in (killed, working, own):
        services.repositories.create_branch(actor, repo, name, None)
    with services.database.write() as connection:
        old = tables.events.c.details.contains(killed) | tables.events.c.details.contains(f'{own}"')
        two_days_ago = engine.now() - 2 * 24 * 3600 * 1_000_000
        connection.execute(update(tables.events).where(old).values(time=two_days_ago))
    assert collected(services) == replace(NOTHING, branches=1)
    assert {ref.name for ref in services.repositories.refs(repo)} == {"main", working, own}


def test_what_was_collected_is_told_among_the_events(services: Services, repo: Repo) -> None:
    upload(services, repo, b"12345")
    collected(services)
    collected(services)  # nothing, and nothing to tell
    (told,) = events.read(services.database, subject=events.REGISTRY, limit=10)
    assert (told.action, told.details["bytes"], told.actor) == ("registry.gc", 5, None)


def test_to_ask_whether_an_upload_is_there_renews_its_wait(services: Services, repo: Repo) -> None:
    def two_days_pass() -> None:
        with services.database.write() as connection:
            connection.execute(update(tables.holdings).values(touched=engine.now() - 2 * 24 * 3600 * 1_000_000))

    sha256 = upload(services, repo, b"12345").sha256
    two_days_pass()
    services.repositories.held(repo, [sha256])
    assert collected(services, DAY).uploads == 0
    two_days_pass()
    assert collected(services, DAY).uploads == 1


def test_a_commit_of_what_was_collected_says_to_upload_again(services: Services, actor: Actor, repo: Repo) -> None:
    added = upload(services, repo, b"12345")
    collected(services)
    with pytest.raises(Unprocessable, match="upload the file again"):
        commit(services, actor, repo, added)
    assert upload(services, repo, b"12345") == added
    commit(services, actor, repo, added)


@pytest.mark.backing("sqlite+folder")  # S3 keeps what is unfinished out of sight
def test_what_a_killed_upload_left_behind_is_swept_when_it_is_old(services: Services) -> None:
    command = [sys.executable, "-c", UPLOAD_WITHOUT_END, str(services.config.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    left = list((services.config.root / "objects" / "incoming").iterdir())
    assert left
    assert collected(services).remains == 0  # for all one knows, it is still running
    for path in left:
        os.utime(path, (0, 0))
    assert collected(services).remains == len(left)
    assert not any(path.exists() for path in left)


def test_collection_beside_uploads_of_the_same_bytes_takes_none_that_was_committed(
    services: Services, actor: Actor
) -> None:
    # Without any grace period bytes are deleted and come back all the time; uploads may be refused, commits not lost.
    done = threading.Event()
    deleted = 0

    def collect_for_ever() -> None:
        nonlocal deleted
        while not done.is_set():
            deleted += collected(services).blobs
            done.wait(0.01)

    collector = threading.Thread(target=collect_for_ever)
    collector.start()
    try:
        committed = 0
        while committed < 5 or not deleted:
            fresh = services.repositories.create(actor, "kernel", "admin/fresh", private=False)
            with contextlib.suppress(Conflict, Unprocessable):
                added = upload(services, fresh, b"same")
                commit(services, actor, fresh, added)
                assert b"".join(services.blobs.read(added.sha256)) == b"same"
                committed += 1
            services.repositories.delete(actor, "kernel", "admin/fresh")
    finally:
        done.set()
        collector.join()
