"""The Hub protocol on the wire: headers, scopes and refusals that no friendly client would show."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks_server.config import Limits
from kernelworks_server.records import AddFile

if TYPE_CHECKING:
    from conftest import Answer, Server

pytestmark = pytest.mark.server
BOTH = pytest.mark.backing("sqlite+folder", "postgresql+s3")


def create(server: Server, token: str, repo_id: str, **more: Any) -> None:
    owner, name = repo_id.split("/")
    body = {"organization": owner, "name": name, "type": "kernel", **more}
    assert server.ask("POST", "/api/repos/create", body, token=token).status == 200


def commit_body(*operations: tuple[str, dict[str, Any]], parent: str | None = None) -> bytes:
    header = {"summary": "test", "description": "", **({"parentCommit": parent} if parent else {})}
    lines = [{"key": "header", "value": header}, *({"key": key, "value": value} for key, value in operations)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def inline(path: str, content: bytes) -> tuple[str, dict[str, Any]]:
    return "file", {"path": path, "content": base64.b64encode(content).decode(), "encoding": "base64"}


def commit(server: Server, token: str, repo_id: str, *operations: tuple[str, dict[str, Any]]) -> str:
    answer = server.ask("POST", f"/api/kernels/{repo_id}/commit/main", commit_body(*operations), token=token)
    assert answer.status == 200, answer.body
    return str(answer.json()["commitOid"])


def batch(server: Server, token: str | None, repo_id: str, oid: str, size: int) -> Answer:
    body = {"operation": "upload", "objects": [{"oid": oid, "size": size}]}
    return server.ask("POST", f"/kernels/{repo_id}.git/info/lfs/objects/batch", body, token=token)


def href(server: Server, token: str, repo_id: str, content: bytes) -> str:
    answer = batch(server, token, repo_id, sha256(content), len(content))
    return str(answer.json()["objects"][0]["actions"]["upload"]["href"])


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# What a download is told


@BOTH
def test_a_head_tells_commit_etag_and_size_and_a_range_gives_just_its_bytes(server: Server) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    large = os.urandom(5000)
    assert server.ask("PUT", href(server, token, "ann/a", large), large).status == 200
    oid = sha256(large)
    pointer = ("lfsFile", {"path": "d/large.so", "algo": "sha256", "oid": oid, "size": 5000})
    head = commit(server, token, "ann/a", inline("small é+%.txt", b"hello"), pointer)

    small = server.ask("HEAD", "/kernels/ann/a/resolve/main/small%20%C3%A9%2B%25.txt")
    told = server.ask("HEAD", "/kernels/ann/a/resolve/main/d/large.so")
    part = server.ask("GET", "/kernels/ann/a/resolve/main/d/large.so", headers={"Range": "bytes=10-19"})
    stale = {"Range": "bytes=10-19", "If-Range": '"other"'}
    whole = server.ask("GET", f"/kernels/ann/a/resolve/{head}/d/large.so", headers=stale)
    beyond = server.ask("GET", "/kernels/ann/a/resolve/main/d/large.so", headers={"Range": "bytes=5000-"})

    git_blob = hashlib.sha1(b"blob 5\0hello", usedforsecurity=False).hexdigest()
    assert (small.status, small.headers["X-Repo-Commit"], small.headers["ETag"]) == (200, head, f'"{git_blob}"')
    assert (small.headers["Content-Length"], small.headers["X-Linked-Etag"]) == ("5", None)
    assert (told.headers["X-Linked-Etag"], told.headers["X-Linked-Size"]) == (f'"{oid}"', "5000")
    assert (told.headers["Content-Length"], told.headers["X-Xet-Hash"]) == ("5000", None)
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, large[10:20], "bytes 10-19/5000")
    assert (whole.status, whole.body) == (200, large)
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, "bytes */5000")
    assert "sandbox" in whole.headers["Content-Security-Policy"]


def test_a_missing_file_is_told_with_the_commit_that_lacks_it(server: Server) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    head = commit(server, token, "ann/a", inline("d/a", b"x"))

    for path in ("gone", "d", "..%2F..%2Fsecret", "d/..%2Fd/a", "%2Fetc/passwd"):
        answer = server.ask("HEAD", f"/kernels/ann/a/resolve/main/{path}")
        assert (answer.status, answer.headers["X-Error-Code"]) == (404, "EntryNotFound")
        assert answer.headers["X-Repo-Commit"] == head
    assert server.ask("GET", "/kernels/ann/a/resolve/main/a%00b").status == 400
    assert server.ask("GET", "/kernels/ann/a/resolve/main/%FF").status == 400
    assert server.ask("GET", "/kernels/ann/a/resolve/nope/d/a").headers["X-Error-Code"] == "RevisionNotFound"


def test_kernels_are_described_without_siblings(server: Server) -> None:
    create(server, server.user("ann"), "ann/a")

    told = server.ask("GET", "/api/kernels/ann/a").json()

    assert "siblings" not in told
    assert told["id"] == "ann/a"


# Who may see and do what

READS = [
    ("GET", "/api/kernels/{repo}"),
    ("GET", "/api/kernels/{repo}/refs"),
    ("GET", "/api/kernels/{repo}/tree/{commit}"),
    ("GET", "/api/kernels/{repo}/commits/{commit}"),
    ("POST", "/api/kernels/{repo}/paths-info/{commit}"),
    ("GET", "/kernels/{repo}/resolve/{commit}/secret.txt"),
    ("HEAD", "/kernels/{repo}/resolve/{commit}/secret.txt"),
]
WRITES = [
    ("DELETE", "/api/repos/delete"),
    ("POST", "/api/kernels/{repo}/branch/v1"),
    ("DELETE", "/api/kernels/{repo}/branch/v1"),
    ("POST", "/api/kernels/{repo}/tag/main"),
    ("DELETE", "/api/kernels/{repo}/tag/t"),
    ("POST", "/api/kernels/{repo}/preupload/main"),
    ("POST", "/api/kernels/{repo}/commit/main"),
    ("POST", "/kernels/{repo}.git/info/lfs/objects/batch"),
    ("GET", "/api/kernels/{repo}/xet-write-token/main"),
]
BODY = {"name": "a", "organization": "ann", "type": "kernel", "tag": "t", "paths": ["secret.txt"], "files": []}
BODY |= {"operation": "upload", "objects": []}


@pytest.mark.parametrize(("method", "path"), READS + WRITES)
def test_a_private_repository_is_not_there_for_strangers(server: Server, method: str, path: str) -> None:
    ann, bob = server.user("ann"), server.user("bob")
    create(server, ann, "ann/a", visibility="private")
    head = commit(server, ann, "ann/a", inline("secret.txt", b"secret"))
    path = path.format(repo="ann/a", commit=head)
    json_type = {"Content-Type": "application/json"}

    nobody = server.ask(method, path, BODY, headers=json_type)
    stranger = server.ask(method, path, BODY, token=bob, headers=json_type)
    missing = server.ask(method, path.replace("ann/a", "ann/none"), BODY | {"name": "none"}, headers=json_type)

    assert (nobody.status, nobody.headers["X-Error-Code"]) == (401, "RepoNotFound")
    assert (stranger.status, stranger.headers["X-Error-Code"]) == (404, "RepoNotFound")
    assert (missing.status, missing.headers["X-Error-Code"]) == (401, "RepoNotFound")
    if (method, path) in [(read, form.format(repo="ann/a", commit=head)) for read, form in READS]:
        assert server.ask(method, path, BODY, token=ann, headers=json_type).status == 200


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_public_repository_is_written_by_nobody_else(server: Server, method: str, path: str) -> None:
    create(server, server.user("ann"), "ann/a")
    path = path.format(repo="ann/a")

    assert server.ask(method, path, BODY).status == 401
    assert server.ask(method, path, BODY, token=server.user("bob")).status == 403
    assert server.ask(method, path, BODY, token=server.user("ann", scope="read")).status == 403


def test_a_token_for_one_organisation_is_none_for_another_owner(server: Server) -> None:
    ann = server.user("ann")
    server.org("acme", ann="write")
    create(server, ann, "ann/a", visibility="private")
    bound = server.services.people.create_token("ann", label="ci", scope="write", org="acme")

    create(server, bound, "acme/a")
    body = commit_body(inline("a", b"x"))
    theirs = server.ask("POST", "/api/kernels/acme/a/commit/main", body, token=bound)
    other = server.ask("POST", "/api/kernels/ann/a/commit/main", body, token=bound)
    new = server.ask("POST", "/api/repos/create", {"name": "b", "organization": "ann", "type": "kernel"}, token=bound)

    assert (theirs.status, other.status, new.status) == (200, 404, 403)


def test_an_unknown_token_is_told_so(server: Server) -> None:
    answer = server.ask("GET", "/api/whoami-v2", token="kw_unknown")  # noqa: S106

    assert (answer.status, answer.headers["X-Error-Message"]) == (401, "Invalid credentials in Authorization header")


@pytest.mark.parametrize(("method", "path"), READS[2:])
def test_a_commit_of_another_repository_is_none_of_this_one(server: Server, method: str, path: str) -> None:
    ann, bob = server.user("ann"), server.user("bob")
    create(server, ann, "ann/a", visibility="private")
    create(server, bob, "bob/b")
    foreign = commit(server, ann, "ann/a", inline("secret.txt", b"secret"))

    headers = {"Content-Type": "application/json"}
    path = path.format(repo="bob/b", commit=foreign)
    answers = [server.ask(method, path, BODY, token=token, headers=headers) for token in (None, bob, ann)]

    assert {(answer.status, answer.headers["X-Error-Code"]) for answer in answers} == {(404, "RevisionNotFound")}


@BOTH
def test_a_file_of_another_repository_cannot_be_committed_by_its_hash(server: Server) -> None:
    ann, bob = server.user("ann"), server.user("bob")
    create(server, ann, "ann/a", visibility="private")
    create(server, bob, "bob/b")
    secret = b"secret" * 100
    assert server.ask("PUT", href(server, ann, "ann/a", secret), secret).status == 200

    for size in ({"size": len(secret)}, {}):
        pointer = ("lfsFile", {"path": "mine", "algo": "sha256", "oid": sha256(secret), **size})
        answer = server.ask("POST", "/api/kernels/bob/b/commit/main", commit_body(pointer), token=bob)
        assert answer.status == 422
    assert "actions" in batch(server, bob, "bob/b", sha256(secret), len(secret)).json()["objects"][0]
    assert "actions" not in batch(server, ann, "ann/a", sha256(secret), len(secret)).json()["objects"][0]


@BOTH
def test_of_commits_on_one_parent_exactly_one_wins(server: Server) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    parent = commit(server, token, "ann/a", inline("a", b"0"))

    def attempt(number: int) -> int:
        body = commit_body(inline("a", b"%d" % (number + 1)), parent=parent)
        return server.ask("POST", "/api/kernels/ann/a/commit/main", body, token=token).status

    with ThreadPoolExecutor(6) as pool:
        statuses = sorted(pool.map(attempt, range(6)))

    assert statuses == [200, 412, 412, 412, 412, 412]


# Uploads by signed address


@BOTH
def test_a_signed_address_takes_its_own_file_once_it_is_whole_and_nothing_else(server: Server) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    content, other = os.urandom(1000), os.urandom(1000)
    address = href(server, token, "ann/a", content)
    path, grant = address.split("?grant=")
    signer, repo = server.services.signer, server.services.repositories.get(server.operator, "kernel", "ann/a")
    expired = signer.issue(action="lfs-put", repo=repo.id, oid=sha256(content), size=1000, seconds=-1)
    xet = signer.issue(action="xet-write", repo=repo.id, oid=sha256(content), size=1000)
    forged = f"{grant[:-2]}{'AA' if not grant.endswith('AA') else 'BB'}"

    refused = {
        "no grant": server.ask("PUT", path, content),
        "expired": server.ask("PUT", f"{path}?grant={expired}", content),
        "forged": server.ask("PUT", f"{path}?grant={forged}", content),
        "for another action": server.ask("PUT", f"{path}?grant={xet}", content),
        "for another file": server.ask("PUT", address.replace(sha256(content), sha256(other)), other),
        "other bytes": server.ask("PUT", address, other),
        "cut": server.ask("PUT", address, content[:-1]),
        "longer": server.ask("PUT", address, content + b"x"),
    }

    statuses = {case: answer.status for case, answer in refused.items()}
    signature = dict.fromkeys(["no grant", "expired", "forged", "for another action", "for another file"], 403)
    assert statuses == {**signature, "other bytes": 422, "cut": 422, "longer": 413}
    assert server.services.repositories.held(repo, [sha256(content), sha256(other)]) == {}
    assert server.ask("PUT", address, content).status == 200
    assert server.services.repositories.held(repo, [sha256(content)]) == {sha256(content): 1000}


def test_an_address_of_a_deleted_repository_takes_nothing(server: Server) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    address = href(server, token, "ann/a", b"x" * 100)
    assert server.ask("DELETE", "/api/repos/delete", BODY, token=token).status == 200
    create(server, token, "ann/a")

    assert server.ask("PUT", address, b"x" * 100).status == 404


def test_an_upload_that_breaks_off_leaves_nothing(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    content = os.urandom(4 << 20)
    path = href(server, token, "ann/a", content).removeprefix(server.url)
    host, port = server.url.removeprefix("http://").split(":")

    with caplog.at_level("INFO", logger="kernelworks_server.requests"):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode())
            connection.sendall(content[: 3 << 20])
        while not any(record.name == "kernelworks_server.requests" for record in caplog.records):
            time.sleep(0.001)  # until the server is done with it

    repo = server.services.repositories.get(server.operator, "kernel", "ann/a")
    assert server.services.repositories.held(repo, [sha256(content)]) == {}
    assert not [path for path in (server.root / "objects").rglob("*") if path.is_file()]


# Who may read


def test_who_administers_a_repository_hides_it_and_shows_it_again(server: Server) -> None:
    ann, bob = server.user("ann"), server.user("bob")
    server.org("acme", ann="admin", bob="write")
    create(server, ann, "acme/a")

    def put(token: str | None, **settings: Any) -> int:
        return server.ask("PUT", "/api/kernels/acme/a/settings", settings, token=token).status

    statuses = [put(None, private=True), put(bob, private=True), put(ann), put(ann, gated="auto")]
    assert statuses == [401, 403, 400, 400]
    assert put(ann, visibility="private") == 200
    assert server.ask("GET", "/api/kernels/acme/a").status == 401
    assert put(ann, private=False) == 200
    assert server.ask("GET", "/api/kernels/acme/a").status == 200


def test_a_repository_has_a_bounded_number_of_branches_and_tags(
    start_server: Callable[..., AbstractContextManager[Server]],
) -> None:
    with start_server(Limits(refs=3)) as server:
        token = server.user("ann")
        create(server, token, "ann/a")
        statuses = [
            server.ask("POST", "/api/kernels/ann/a/branch/v1", {}, token=token).status,
            server.ask("POST", "/api/kernels/ann/a/tag/main", {"tag": "t"}, token=token).status,
            server.ask("POST", "/api/kernels/ann/a/branch/v2", {}, token=token).status,
        ]
    assert statuses == [200, 200, 413]


# Uploads by Xet


def xet(server: Server, token: str, repo_id: str) -> tuple[str, str]:
    """(address, token) that the registry gives for uploads to a repository."""
    told = server.ask("GET", f"/api/kernels/{repo_id}/xet-write-token/main", token=token).json()
    return told["casUrl"], told["accessToken"]


def test_a_xet_token_writes_to_its_own_repository_only(server: Server) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    create(server, token, "ann/b")
    (address_a, token_a), (address_b, _) = xet(server, token, "ann/a"), xet(server, token, "ann/b")
    repo = server.services.repositories.get(server.operator, "kernel", "ann/a")
    xorb = b"\0\3\0\0\0\3\0\0abc"
    expired = server.services.signer.issue(action="xet-write", repo=repo.id, seconds=-1)
    read = server.services.signer.issue(action="xet-read", repo=repo.id)
    path = f"/v1/xorbs/default/{'a' * 64}"

    for bad in (None, token, expired, read, token_a.swapcase()):
        assert server.ask("POST", address_a + path, xorb, token=bad).status == 403
        assert server.ask("POST", address_a + "/v1/shards", b"", token=bad).status == 403
    assert server.ask("POST", address_b + path, xorb, token=token_a).status == 403
    first = server.ask("POST", address_a + path, xorb, token=token_a)
    again = server.ask("POST", address_a + path, xorb, token=token_a)

    assert (first.json(), again.json()) == ({"was_inserted": True}, {"was_inserted": False})
    assert server.ask("POST", f"{address_a}/v1/xorbs/default/..%2Fx", xorb, token=token_a).status == 400
    assert server.ask("POST", f"{address_a}/v2/shards", b"", token=token_a).status == 404


def test_the_address_for_xet_changes_every_week_and_the_last_one_still_takes_what_is_under_way(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    began, day = time.time(), 24 * 3600
    addresses, grants = [], []
    for days in (0, 7, 14):
        monkeypatch.setattr(server.services.signer, "_clock", lambda days=days: began + days * day)
        address, grant = xet(server, token, "ann/a")
        addresses.append(address)
        grants.append(grant)

    statuses = [
        server.ask("POST", f"{address}/v1/xorbs/default/{'a' * 64}", b"\0\3\0\0\0\3\0\0abc", token=grants[2]).status
        for address in addresses
    ]

    assert len(set(addresses)) == 3
    assert statuses == [403, 200, 200]


def shard(content: bytes, xorb: str, *, stop: int = 1, size: int | None = None) -> bytes:
    """A shard of one file that is the first chunks of a xorb."""

    def raw(text: str) -> bytes:
        return b"".join(int(text[at : at + 16], 16).to_bytes(8, "little") for at in range(0, 64, 16))

    head = b"HFRepoMetaData\0" + bytes.fromhex("556967456a7b815783a5bdd95ccdd14aa9")
    numbers = [0, len(content) if size is None else size, 0, stop]
    return b"".join(
        [
            head + (2).to_bytes(8, "little") + bytes(8),
            b"f" * 32 + (1 << 30).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(8),
            raw(xorb) + b"".join(number.to_bytes(4, "little") for number in numbers),
            raw(sha256(content)) + bytes(16),
            b"\xff" * 32 + bytes(16),
        ]
    )


@BOTH
def test_a_shard_makes_a_file_only_of_what_its_repository_was_sent_and_only_if_it_is_that_file(
    start_server: Callable[..., AbstractContextManager[Server]],
) -> None:
    with start_server(Limits(file=100)) as server:
        token = server.user("ann")
        create(server, token, "ann/a")
        create(server, token, "ann/b")
        (address_a, token_a), (address_b, token_b) = xet(server, token, "ann/a"), xet(server, token, "ann/b")
        xorb = "a" * 64
        body = b"\0\3\0\0\0\3\0\0abc"
        assert server.ask("POST", f"{address_a}/v1/xorbs/default/{xorb}", body, token=token_a).status == 200

        def send(address: str, token: str, data: bytes) -> int:
            return server.ask("POST", f"{address}/v1/shards", data, token=token).status

        assert send(address_b, token_b, shard(b"abc", xorb)) == 400
        assert send(address_a, token_a, shard(b"abc", "b" * 64)) == 400
        assert send(address_a, token_a, shard(b"abc", xorb, stop=2)) == 400
        assert send(address_a, token_a, shard(b"abc", xorb, size=4)) == 400
        assert send(address_a, token_a, shard(b"abc", xorb, size=101)) == 413
        assert send(address_a, token_a, shard(b"abd", xorb)) == 422
        assert send(address_a, token_a, shard(b"abc", xorb)) == 200
        repo = server.services.repositories.get(server.operator, "kernel", "ann/a")
        assert server.services.repositories.held(repo, [sha256(b"abc"), sha256(b"abd")]) == {sha256(b"abc"): 3}


# Bodies that are too long


def unread(server: Server, method: str, path: str, token: str | None, announced: int) -> int:
    """The status that a request gets which announces a body and sends none of it."""
    host, port = server.url.removeprefix("http://").split(":")
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"{method} {path.removeprefix(server.url)} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}"
        connection.sendall(f"{head}Content-Length: {announced}\r\n\r\n".encode())
        return int(connection.recv(1000).split()[1])


def test_a_body_over_the_limit_is_refused_before_any_of_it_is_read(server: Server) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    address, access = xet(server, token, "ann/a")
    put = href(server, token, "ann/a", b"x" * 100)

    for method, path, bearer in [
        ("POST", "/api/repos/create", None),
        ("POST", "/api/validate-yaml", None),
        ("POST", "/api/kernels/ann/a/preupload/main", token),
        ("POST", "/api/kernels/ann/a/commit/main", token),
        ("PUT", put, None),
        ("POST", f"{address}/v1/xorbs/default/{'a' * 64}", access),
        ("POST", f"{address}/v1/shards", access),
    ]:
        assert unread(server, method, path, bearer, 1 << 40) == 413, path
    assert unread(server, "POST", "/api/kernels/ann/a/commit/main", None, 1 << 20) == 401
    assert unread(server, "PUT", put.replace("grant=", "grant=x"), None, 100) == 403


@pytest.mark.parametrize(
    "operations",
    [
        [inline("../a", b"x")],
        [inline("a", b"x"), inline("a", b"y")],
        [inline("a", b"x"), inline("A", b"y")],
        [inline("a", b"x"), inline("a/b", b"y")],
        [inline(".git/config", b"x")],
        [("file", {"path": "a", "content": "!", "encoding": "base64"})],
        [("deletedFile", {"path": "gone"})],
        [("symlink", {"path": "a", "target": "/etc/passwd"})],
    ],
    ids=["traversal", "twice", "case", "file and folder", "git", "base64", "gone", "symlink"],
)
def test_a_commit_that_cannot_be_changes_nothing(server: Server, operations: list[tuple[str, dict[str, Any]]]) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    before = server.ask("GET", "/api/kernels/ann/a/refs").json()

    answer = server.ask("POST", "/api/kernels/ann/a/commit/main", commit_body(*operations), token=token)

    assert answer.status in {400, 404, 409}, answer.body
    assert server.ask("GET", "/api/kernels/ann/a/refs").json() == before


@pytest.mark.parametrize("content", ["---\na: &a {b: c}\nd: *a\n---\n", "# no metadata", "", "---\n---\n"])
def test_good_metadata_of_a_readme_passes(server: Server, content: str) -> None:
    assert server.ask("POST", "/api/validate-yaml", {"content": content}).status == 200


@pytest.mark.parametrize(
    "content", [7, "---\na: [\n---\n", "---\n- a\n---\n", "---\na: b\n", "---\n" + "[" * 60_000 + "\n---\n"]
)
def test_bad_metadata_of_a_readme_is_refused_in_words(server: Server, content: object) -> None:
    answer = server.ask("POST", "/api/validate-yaml", {"content": content})

    assert answer.status == 400
    assert answer.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/repos/create", b"{"),
        ("POST", "/api/repos/create", {"name": "a/b/../c", "organization": "ann"}),
        ("POST", "/api/repos/create", {"name": "a", "organization": "ann", "type": "dataset"}),
        ("POST", "/api/repos/create", {"name": ["a"], "organization": "ann"}),
        ("POST", "/api/kernels/ann/a/branch/refs%2Fheads%2Fx", {}),
        ("POST", "/api/kernels/ann/a/branch/a%2F..%2Fb", {}),
        ("POST", "/api/kernels/ann/a/tag/main", {"tag": "../x"}),
        ("POST", "/api/kernels/ann/a/preupload/main", {"files": [{"path": "../x", "size": 1}]}),
        ("POST", "/api/kernels/ann/a/preupload/main", {"files": [{"path": "x", "size": 1, "sample": "?"}]}),
        ("POST", "/api/kernels/ann/a/commit/main?create_pr=1", b""),
        ("POST", "/kernels/ann/a.git/info/lfs/objects/batch", {"operation": "upload", "objects": [{"oid": "../x"}]}),
        ("POST", "/kernels/ann/a.git/info/lfs/objects/batch", {"operation": "download", "objects": []}),
        ("GET", "/api/kernels?limit=-1", None),
        ("GET", "/api/kernels?search=%00", None),
        ("GET", "/api/kernels/ann/a/tree/main?limit=x", None),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(server: Server, method: str, path: str, body: Any) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")

    answer = server.ask(method, path, body, token=token)

    assert answer.status == 400, answer.body
    assert answer.headers["X-Error-Message"]


def test_a_file_that_is_there_already_is_told_by_its_id_and_binary_ones_go_by_lfs(server: Server) -> None:
    token = server.user("ann")
    create(server, token, "ann/a")
    commit(server, token, "ann/a", inline("a.txt", b"hello"))
    sample = base64.b64encode(b"\x7fELF\0").decode()
    asked = [{"path": "a.txt", "size": 5, "sample": ""}, {"path": "b.so", "size": 9, "sample": sample}]
    asked += [{"path": "c.txt", "size": 2 << 20, "sample": ""}, {"path": "d.so", "size": 0, "sample": ""}]

    told = server.ask("POST", "/api/kernels/ann/a/preupload/main", {"files": asked}, token=token).json()["files"]

    git_blob = hashlib.sha1(b"blob 5\0hello", usedforsecurity=False).hexdigest()
    assert [file["uploadMode"] for file in told] == ["regular", "lfs", "lfs", "regular"]
    assert [file.get("oid") for file in told] == [git_blob, None, None, None]


@BOTH
def test_the_list_holds_what_the_asker_may_read(server: Server) -> None:
    ann = server.user("ann")
    create(server, ann, "ann/open")
    create(server, ann, "ann/shut", visibility="private")

    mine = server.ask("GET", "/api/kernels?author=ann&limit=1", token=ann)
    rest = server.ask("GET", mine.headers["Link"].split(">")[0].removeprefix("<"), token=ann)
    everybody = server.ask("GET", "/api/kernels?search=s&author=ann")

    assert [repo["id"] for repo in mine.json() + rest.json()] == ["ann/open", "ann/shut"]
    assert everybody.json() == []


def test_a_file_that_the_domain_was_given_is_served(server: Server) -> None:
    """The two interfaces of one registry see the same repository."""
    services = server.services
    repo = services.repositories.create(server.operator, "model", "admin/m", private=False)
    digest, size = services.repositories.receive(repo, [b"bytes"], expected=None, limit=10)
    operations = [AddFile("a", digest, size, lfs=False)]
    services.repositories.commit(server.operator, repo, "main", operations, message="m", description="", parent=None)

    assert server.ask("GET", "/admin/m/resolve/main/a").body == b"bytes"
