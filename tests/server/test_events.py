"""Who changed what, and when: told in order, kept when the thing is gone, and only of what really happened."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kernelworks_server import events
from kernelworks_server.errors import Conflict, PreconditionFailed
from kernelworks_server.records import AddFile
from kernelworks_server.services import Services

PROGRAM = [sys.executable, "-c", "from kernelworks_server.cli import main; main()"]


def told(services: Services, subject: str | None = None) -> list[tuple[str | None, str, str]]:
    found = events.read(services.database, subject=subject, limit=100)
    return [(event.actor, event.action, event.subject) for event in reversed(found)]


def test_the_life_of_a_repository_is_told_after_its_end(services: Services) -> None:
    people, repositories = services.people, services.repositories
    people.create_user("Ann")
    ann = people.actor(people.create_token("Ann", label="one", scope="admin"))
    repo = repositories.create(ann, "kernel", "Ann/relu", private=False)
    sha256, size = repositories.receive(repo, [b"text"], expected=None, limit=10)
    add = [AddFile("a", sha256, size, lfs=False)]
    commit = repositories.commit(ann, repo, "main", add, message="one", description="", parent=None)
    repositories.create_branch(ann, repo, "v1", None)
    repositories.create_tag(ann, repo, "first", "main", "")
    repositories.delete_tag(ann, repo, "first")
    repositories.delete(ann, "kernel", "Ann/relu")

    found = events.read(services.database, subject="ann/RELU", limit=100)[::-1]

    assert {(event.actor, event.subject) for event in found} == {("Ann", "Ann/relu")}
    actions = ["kernel.create", "commit", "branch.create", "tag.create", "tag.delete", "kernel.delete"]
    assert [event.action for event in found] == actions
    assert found[1].commit == found[2].commit == found[3].commit == commit
    assert found[1].details == {"branch": "main", "parent": found[0].commit}
    assert found[2].details == {"name": "v1"}


def test_what_was_refused_or_changed_nothing_is_not_told(services: Services) -> None:
    people, repositories = services.people, services.repositories
    people.create_user("ann")
    ann = people.actor(people.create_token("ann", label="one", scope="admin"))
    repo = repositories.create(ann, "kernel", "ann/relu", private=False)
    before = told(services)
    with pytest.raises(Conflict):
        repositories.create(ann, "kernel", "ann/relu", private=False)
    with pytest.raises(Conflict):
        people.create_user("ann")
    with pytest.raises(PreconditionFailed):
        repositories.commit(ann, repo, "main", [], message="one", description="", parent="0" * 40)
    repositories.commit(ann, repo, "main", [], message="nothing", description="", parent=None)
    assert told(services) == before


def test_changes_of_people_are_told_without_their_secrets(services: Services) -> None:
    people = services.people
    people.create_user("ann")
    people.create_org("team")
    people.add_member("team", "ann", "write")
    people.set_trusted("team", trusted=True)
    token = people.create_token("ann", label="one", scope="read", org="team")
    people.revoke("ann", "one")
    people.remove_member("team", "ann")

    assert told(services) == [
        (None, "user.create", "ann"),
        (None, "org.create", "team"),
        (None, "member.set", "team"),
        (None, "org.trust", "team"),
        (None, "token.create", "ann"),
        (None, "token.revoke", "ann"),
        (None, "member.remove", "team"),
    ]
    assert token not in json.dumps([event.to_json() for event in events.read(services.database, limit=100)])


def test_the_program_tells_the_latest_changes_in_lines_and_in_json(services: Services) -> None:
    services.people.create_user("ann")
    services.people.create_token("ann", label="one", scope="read")
    command = [*PROGRAM, "log", "--root", str(services.config.root), "--repo", "ann", "--limit", "1"]

    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    document = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)

    assert [line.partition(" (at the machine) ")[2] for line in lines] == ["token.create ann label=one scope=read"]
    assert document["events"][0]["details"] == {"label": "one", "scope": "read", "org": None}
