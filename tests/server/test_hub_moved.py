"""Renamed repositories over HTTP: every address of the old name leads to the new one, for who may read it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks_server.app import create_app
from kernelworks_server.config import open_config
from kernelworks_server.records import AddFile

if TYPE_CHECKING:
    from conftest import Server  # type: ignore[import-not-found]

pytestmark = pytest.mark.server


def ask(server: Server, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
    """(status, headers, body) of one request, its path as it stands; what is not bytes goes as JSON."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=30)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, data, {"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def move(server: Server, token: str | None, old: str, new: str) -> int:
    body = {"fromRepo": old, "toRepo": new, "type": "kernel"}
    return int(ask(server, "POST", "/api/repos/move", body, token)[0])


@pytest.fixture
def ann(server: Server) -> str:
    """Her token; she has a kernel `ann/old` with a file `f`, and a private one, `ann/secret`."""
    token = str(server.user("ann"))
    actor, repositories = server.services.people.actor(token), server.services.repositories
    repositories.create(actor, "kernel", "ann/secret", private=True)
    repo = repositories.create(actor, "kernel", "ann/old", private=False)
    file = AddFile("f", *repositories.receive(repo, [b"text"], expected=None, limit=9), lfs=False)
    repositories.commit(actor, repo, "main", [file], message="m", description="", parent=None)
    return token


PATHS = [
    ("GET", "/api/kernels/ann/{}"),
    ("GET", "/api/kernels/ann/{}/revision/main?a=1&b=%2F"),
    ("GET", "/api/kernels/ann/{}/refs"),
    ("GET", "/api/kernels/ann/{}/commits/main?limit=2"),
    ("GET", "/api/kernels/ann/{}/tree/main/d%2Fe?recursive=True"),
    ("POST", "/api/kernels/ann/{}/paths-info/main"),
    ("POST", "/api/kernels/ann/{}/branch/v1"),
    ("DELETE", "/api/kernels/ann/{}/branch/v1"),
    ("POST", "/api/kernels/ann/{}/tag/main"),
    ("DELETE", "/api/kernels/ann/{}/tag/t"),
    ("POST", "/api/kernels/ann/{}/yank"),
    ("DELETE", "/api/kernels/ann/{}/deprecate"),
    ("PUT", "/api/kernels/ann/{}/settings"),
    ("POST", "/api/kernels/ann/{}/preupload/main"),
    ("POST", "/api/kernels/ann/{}/commit/main"),
    ("GET", "/api/kernels/ann/{}/xet-write-token/main"),
    ("POST", "/kernels/ann/{}.git/info/lfs/objects/batch"),
    ("GET", "/kernels/ann/{}/resolve/v1%2Frc/a%20b/%C3%A9?download=true"),
    ("HEAD", "/kernels/ann/{}/resolve/main/f"),
    ("GET", "/simple/files/ann/{}/0123456789012345678901234567890123456789/w.whl"),
]
BODIES = {
    "paths-info": {"paths": []},
    "yank": {"revision": "v1"},
    "settings": {"private": False},
    "preupload": {"files": []},
    "tag": {"tag": "t"},
    "batch": {"operation": "upload", "objects": []},
}


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_every_address_leads_on_with_its_method_and_query(server: Server, ann: str, method: str, path: str) -> None:
    assert move(server, ann, "ann/old", "ann/new.name") == 200
    body = next((body for part, body in BODIES.items() if f"/{part}" in path), None)

    status, headers, _ = ask(server, method, path.format("old"), body, ann)

    assert (status, headers["Location"]) == (307, path.format("new.name"))


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_who_may_not_read_the_repository_is_not_led_there(server: Server, ann: str, method: str, path: str) -> None:
    assert move(server, ann, "ann/secret", "ann/hidden") == 200
    body = next((body for part, body in BODIES.items() if f"/{part}" in path), None)
    for asker in (None, server.user("sam")):
        former = ask(server, method, path.format("secret"), body, asker)
        absent = ask(server, method, path.format("absent"), body, asker)
        assert former[0] in {401, 404}
        assert former[1]["Location"] is None
        assert (former[0], former[2].replace(b"secret", b"absent")) == (absent[0], absent[2])


def test_models_without_a_prefix_lead_on_to_models(server: Server, ann: str) -> None:
    server.services.repositories.create(server.services.people.actor(ann), "model", "ann/m", private=False)
    body = {"fromRepo": "ann/m", "toRepo": "ann/n", "type": "model"}
    assert ask(server, "POST", "/api/repos/move", body, ann)[0] == 200
    assert ask(server, "GET", "/ann/m/resolve/main/f")[1]["Location"] == "/ann/n/resolve/main/f"
    assert ask(server, "GET", "/api/models/ann/m")[1]["Location"] == "/api/models/ann/n"


def test_a_move_is_refused_as_other_changes_are(server: Server, ann: str) -> None:
    server.org("acme", ann="write")
    stranger = server.user("sam")
    bound = server.services.people.create_token("ann", label="bound", scope="admin", org="acme")
    assert move(server, None, "ann/old", "ann/new") == 401
    assert move(server, stranger, "ann/old", "sam/new") == 403
    assert move(server, bound, "ann/old", "acme/new") == 403
    assert move(server, stranger, "ann/secret", "sam/new") == 404
    assert move(server, ann, "ann/old", "ann/secret") == 409
    assert move(server, ann, "ann/old", "sam/new") == 403
    assert move(server, ann, "ann/old", "ann/../x") == 400
    assert move(server, ann, "ann/old", "acme/new") == 200
    status, headers, body = ask(
        server, "DELETE", "/api/repos/delete", {"organization": "ann", "name": "old", "type": "kernel"}, ann
    )
    assert (status, headers["X-Error-Code"]) == (404, "RepoNotFound")
    assert "kernel `ann/old` is now `acme/new`" in json.loads(body)["error"]


def test_an_upload_that_began_under_the_old_name_is_finished_under_the_new_one(server: Server, ann: str) -> None:
    content = os.urandom(3000)
    oid = hashlib.sha256(content).hexdigest()
    objects = {"operation": "upload", "objects": [{"oid": oid, "size": len(content)}]}
    begun = json.loads(ask(server, "POST", "/kernels/ann/old.git/info/lfs/objects/batch", objects, ann)[2])
    address = begun["objects"][0]["actions"]["upload"]["href"].removeprefix(server.url)
    assert move(server, ann, "ann/old", "ann/new") == 200

    assert ask(server, "PUT", address, content)[0] == 200
    lines = [
        {"key": "header", "value": {"summary": "large"}},
        {"key": "lfsFile", "value": {"path": "large", "algo": "sha256", "oid": oid, "size": len(content)}},
    ]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert ask(server, "POST", "/api/kernels/ann/new/commit/main", body, ann)[0] == 200

    assert ask(server, "GET", "/kernels/ann/new/resolve/main/large")[2] == content


def test_a_large_body_is_led_on_without_being_kept(server: Server, ann: str) -> None:
    assert move(server, ann, "ann/old", "ann/new") == 200
    content = base64.b64encode(os.urandom(6 << 20)).decode()
    lines = [
        {"key": "header", "value": {"summary": "large"}},
        {"key": "file", "value": {"path": "large", "content": content, "encoding": "base64"}},
    ]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=30)
    try:
        for name, status in (("old", 307), ("new", 200)):  # over one connection, as clients go on
            headers = {"Authorization": f"Bearer {ann}"}
            connection.request("POST", f"/api/kernels/ann/{name}/commit/main", body, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
    finally:
        connection.close()


def test_behind_a_proxy_the_address_has_the_prefix_that_clients_know(tmp_path: Path) -> None:
    from starlette.testclient import TestClient  # noqa: PLC0415

    config = open_config(tmp_path, base_url="https://kernels.example.org/hub/")
    application = create_app(config)
    services = application.state.services
    services.people.create_user("ann")
    actor = services.people.actor(services.people.create_token("ann", label="t", scope="write"))
    services.repositories.create(actor, "kernel", "ann/old", private=False)
    services.repositories.rename(actor, "kernel", "ann/old", "ann/new")
    with TestClient(application) as client:
        answer = client.get("/api/kernels/ann/old/refs", follow_redirects=False)
    assert answer.headers["Location"] == "/hub/api/kernels/ann/new/refs"


# Stock clients


USE = """
    from huggingface_hub import CommitOperationAdd, hf_hub_download, snapshot_download
    old = {"repo_id": "ann/old", "repo_type": "kernel"}
    api.upload_file(path_or_fileobj=b"small", path_in_repo="small", **old)
    api.upload_file(path_or_fileobj=arg[0], path_in_repo="large.bin", **old)
    api.create_branch(branch="v1", **old)
    api.create_tag(tag="t", **old)
    path = hf_hub_download(filename="f", revision="v1", **old)
    folder = snapshot_download(revision="t", cache_dir=arg[1], **old)
    refs = api.list_repo_refs(**old)
    print(json.dumps([
        open(path).read(),
        folder,
        sorted(ref.name for ref in refs.branches),
        api.repo_info(**old).id,
        sorted(api.list_repo_files(**old)),
        api.file_exists(filename="small", **old),
    ]))
"""


@pytest.mark.parametrize("xet", ["0", "1"], ids=["xet", "lfs"])
def test_stock_clients_upload_and_download_by_the_old_name(
    server: Server, ann: str, run: Any, tmp_path: Path, xet: str
) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(b"\0" + os.urandom(2 << 20))
    rename = 'print(api.move_repo(*arg, repo_type="kernel") or 0)'
    run(server, tmp_path / "home", rename, "ann/old", "ann/new", token=ann)

    text, folder, branches, repo_id, files, there = run(
        server, tmp_path / "home", USE, str(large), str(tmp_path / "cache"), token=ann, HF_HUB_DISABLE_XET=xet
    )

    assert (text, branches, repo_id, there) == ("text", ["main", "v1"], "ann/new", True)
    assert files == ["f", "large.bin", "small"]
    assert (Path(folder) / "large.bin").read_bytes() == large.read_bytes()
