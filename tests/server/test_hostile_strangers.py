"""Who lacks the right, or has one for something else: no door opens, whatever is shown and whichever way is tried."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks_server.records import AddFile, Repo

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.server

SECRET = b"the secret of ann" * 100
OID = hashlib.sha256(SECRET).hexdigest()
JSON = {"Content-Type": "application/json"}
DOORS = [
    ("GET", "/api/whoami-v2"),
    ("GET", "/api/kernels"),
    ("GET", "/api/kernels/ann/a"),
    ("GET", "/api/kernels/ann/a/tree/main"),
    ("GET", "/kernels/ann/a/resolve/main/secret"),
    ("POST", "/kernels/ann/a.git/info/lfs/objects/batch"),
    ("GET", "/api/kernels/ann/a/xet-write-token/main"),
    ("POST", "/api/kernels/ann/a/branch/v1"),
    ("DELETE", "/api/repos/delete"),
    ("GET", "/simple/torch213-cpu/"),
    ("GET", "/"),
    ("GET", "/ann/a"),
]
BODY = {"operation": "upload", "objects": [], "name": "a", "organization": "ann", "type": "kernel"}


@pytest.fixture
def private(server: Server) -> tuple[Repo, str]:
    """The private kernel `ann/a` with one file, and its commit; `bob/b` is public and holds other bytes."""
    repositories = server.services.repositories
    for name, content, hidden in (("bob", b"other", False), ("ann", SECRET, True)):
        server.user(name)
        repo = repositories.create(server.operator, "kernel", f"{name}/{name[0]}", private=hidden)
        sha256, size = repositories.receive(repo, [content], expected=None, limit=1 << 20)
        added = [AddFile("secret", sha256, size, lfs=True)]
        head = repositories.commit(server.operator, repo, "main", added, message="m", description="", parent=None)
    return repo, head


@pytest.mark.parametrize("scheme", ["Bearer", "Basic"])
@pytest.mark.parametrize("token", ["unknown", "expired", "revoked"])
@pytest.mark.usefixtures("private")
def test_a_token_that_works_no_more_opens_not_even_what_is_open_to_all(server: Server, token: str, scheme: str) -> None:
    people = server.services.people
    tokens = {
        "unknown": "kw_unknown",
        "expired": people.create_token("ann", label="expired", scope="write", lifetime=timedelta(0)),
        "revoked": people.create_token("ann", label="revoked", scope="write"),
    }
    people.revoke("ann", "revoked")
    shown = tokens[token] if scheme == "Bearer" else base64.b64encode(f"ann:{tokens[token]}".encode()).decode()
    doors = [door for door in DOORS if scheme == "Bearer" or door[1].startswith("/simple/")]

    answers = [server.ask(*door, BODY, headers={**JSON, "Authorization": f"{scheme} {shown}"}) for door in doors]

    assert {answer.status for answer in answers} == {401}


def test_who_leaves_an_organisation_has_its_rights_no_more(server: Server) -> None:
    token = server.user("ann")
    server.org("acme", ann="write")
    server.services.repositories.create(server.operator, "kernel", "acme/a", private=True)
    assert server.ask("GET", "/api/kernels/acme/a/xet-write-token/main", token=token).status == 200

    server.services.people.remove_member("acme", "ann")

    for path in ("/api/kernels/acme/a", "/api/kernels/acme/a/xet-write-token/main"):
        assert server.ask("GET", path, token=token).status == 404


FOREIGN = {
    "describe": ("GET", "/api/kernels/bob/b/revision/{commit}", None),
    "list": ("GET", "/api/kernels/bob/b/tree/{commit}?recursive=1", None),
    "look up": ("POST", "/api/kernels/bob/b/paths-info/{commit}", {"paths": ["secret"]}),
    "history": ("GET", "/api/kernels/bob/b/commits/{commit}", None),
    "history from there": ("GET", "/api/kernels/bob/b/commits/main?cursor={commit}", None),
    "download": ("GET", "/kernels/bob/b/resolve/{commit}/secret", None),
    "download as a model": ("GET", "/bob/b/resolve/{commit}/secret", None),
    "download as a wheel": ("GET", "/simple/files/bob/b/{commit}/secret.whl", None),
    "show": ("GET", "/bob/b?revision={commit}", None),
    "branch": ("POST", "/api/kernels/bob/b/branch/v1", {"startingPoint": "COMMIT"}),
    "tag": ("POST", "/api/kernels/bob/b/tag/{commit}", {"tag": "t"}),
    "prepare": ("POST", "/api/kernels/bob/b/commit/{commit}", {"key": "header", "value": {"summary": "x"}}),
    "large file": ("GET", "/api/lfs/{oid}", None),
    "xorb": ("GET", "/xet/{oid}/v1/xorbs/default/{oid}", None),
    "chunks": ("GET", "/xet/{oid}/v1/chunks/default/{oid}", None),
    "rebuild": ("GET", "/xet/{oid}/v1/reconstructions/{oid}", None),
}


@pytest.mark.parametrize(("method", "path", "body"), FOREIGN.values(), ids=FOREIGN)
def test_no_way_leads_from_ones_own_repository_into_anothers(
    server: Server, private: tuple[Repo, str], method: str, path: str, body: Any
) -> None:
    repositories, token = server.services.repositories, server.user("bob")
    own = repositories.get(server.operator, "kernel", "bob/b")
    before = repositories.refs(own)

    for head in (private[1], private[1].upper(), private[1][:12]):
        data = body and json.dumps(body).replace("COMMIT", head).encode()
        answer = server.ask(method, path.format(commit=head, oid=OID), data, token=token, headers=JSON)

        assert answer.status in {403, 404, 405}, answer.body
        assert SECRET not in answer.body
    assert repositories.refs(own) == before


def test_a_commit_on_a_foreign_parent_is_stale(server: Server, private: tuple[Repo, str]) -> None:
    body = b'{"key": "header", "value": {"summary": "x", "parentCommit": "%s"}}\n' % private[1].encode()

    answer = server.ask("POST", "/api/kernels/bob/b/commit/main", body, token=server.user("bob"))

    assert answer.status == 412


@pytest.mark.usefixtures("private")
def test_lists_and_searches_hold_no_name_of_a_private_repository(server: Server) -> None:
    asked = ["?search=a", "?author=ann", "?author=ANN", "?search=ann/a", "?cursor=ann/", "?limit=1&cursor=a"]

    answers = [server.ask("GET", f"/api/kernels{query}", token=server.user("bob")) for query in asked]
    pages = [server.ask("GET", path, token=server.user("bob")) for path in ("/", "/?q=ann", "/ann", "/?after=ann")]

    assert {answer.status for answer in answers + pages} == {200}
    assert not [answer for answer in answers + pages if b"ann/a" in answer.body or "ann/a" in str(answer.headers)]


def test_a_signature_opens_the_one_door_that_it_was_made_for(server: Server, private: tuple[Repo, str]) -> None:
    signer, repo = server.services.signer, private[0]
    other = server.services.repositories.get(server.operator, "kernel", "bob/b")
    space = server.ask("GET", "/api/kernels/ann/a/xet-write-token/main", token=server.token).json()["casUrl"]
    genuine: Mapping[str, str] = {
        "put": signer.issue(action="lfs-put", repo=repo.id, oid=OID, size=len(SECRET)),
        "put another": signer.issue(action="lfs-put", repo=repo.id, oid="0" * 64, size=len(SECRET)),
        "put too late": signer.issue(action="lfs-put", repo=repo.id, oid=OID, size=len(SECRET), seconds=-1),
        "get": signer.issue(action="lfs-get", repo=repo.id, oid=OID, size=len(SECRET)),
        "xet": signer.issue(action="xet-write", repo=repo.id),
        "xet of another": signer.issue(action="xet-write", repo=other.id),
        "xet too late": signer.issue(action="xet-write", repo=repo.id, seconds=-1),
        "xet for reading": signer.issue(action="xet-read", repo=repo.id),
    }
    tampered = {
        f"{name}, tampered": f"{text[:9]}{'A' if text[9] != 'A' else 'B'}{text[10:]}" for name, text in genuine.items()
    }
    shown = {**genuine, **tampered, "an operator's token": server.token, "nothing": ""}

    def opens(method: str, path: str, body: bytes, name: str) -> bool:
        bearer = shown[name] if "/xet/" in path else None
        return server.ask(method, path.format(grant=shown[name]), body, token=bearer).status != 403

    put = {name for name in shown if opens("PUT", f"/api/lfs/{OID}?grant={{grant}}", SECRET, name)}
    xorb = {name for name in shown if opens("POST", f"{space}/v1/xorbs/default/{'a' * 64}", b"x", name)}
    shard = {name for name in shown if opens("POST", f"{space}/v1/shards", b"x", name)}
    api = {
        name for name, text in shown.items() if text and server.ask("GET", "/api/whoami-v2", token=text).status == 200
    }

    assert (put, xorb, shard, api) == ({"put"}, {"xet"}, {"xet"}, {"an operator's token"})
