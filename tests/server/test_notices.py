"""Yanked commits and deprecated repositories: what is remembered, for how long, by whom, and what clients are told."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from kernelworks_server import events
from kernelworks_server.errors import BadRequest, Forbidden, NotFound, RepoNotFound, RevisionNotFound, SignInRequired
from kernelworks_server.records import AddFile, Notice, Remarks, Repo
from kernelworks_server.rights import ANONYMOUS, MACHINE, Actor
from kernelworks_server.services import Services

if TYPE_CHECKING:
    from conftest import Server  # type: ignore[import-not-found]

pytestmark = pytest.mark.backing("sqlite+folder", "postgresql+folder")

both = pytest.mark.backing("sqlite+folder", "postgresql+folder")


def user(services: Services, name: str, scope: str = "write") -> Actor:
    services.people.create_user(name)
    return services.people.actor(services.people.create_token(name, label="t", scope=scope))


@pytest.fixture
def ann(services: Services) -> Actor:
    """Who owns the repository."""
    return user(services, "ann")


@pytest.fixture
def repo(services: Services, ann: Actor) -> Repo:
    """A repository with a branch `v1`."""
    made = services.repositories.create(ann, "kernel", "ann/relu", private=False)
    services.repositories.create_branch(ann, made, "v1", None)
    return made


def publish(services: Services, actor: Actor, repo: Repo, text: bytes, branch: str = "v1") -> str:
    file = AddFile("a", *services.repositories.receive(repo, [text], expected=None, limit=99), lfs=False)
    return services.repositories.commit(actor, repo, branch, [file], message="m", description="", parent=None)


@both
def test_a_yank_is_of_the_commit_and_the_next_one_is_a_new_start(services: Services, ann: Actor, repo: Repo) -> None:
    bad = publish(services, ann, repo, b"bad")
    assert services.repositories.yank(ann, repo, "v1", "wrong results for NaN") == bad
    assert services.repositories.remarks(repo, bad) == Remarks("wrong results for NaN", None)

    good = publish(services, ann, repo, b"good")

    assert services.repositories.yanks(repo) == {bad: "wrong results for NaN"}
    assert services.repositories.remarks(repo, good) == Remarks(None, None)


@both
def test_a_yank_can_be_given_another_reason_and_be_undone_once(services: Services, ann: Actor, repo: Repo) -> None:
    commit = services.repositories.yank(ann, repo, "v1")
    assert services.repositories.yanks(repo) == {commit: "no reason was given"}
    services.repositories.yank(ann, repo, commit, "  leaks memory ")
    assert services.repositories.yanks(repo) == {commit: "leaks memory"}

    assert services.repositories.unyank(ann, repo, "v1") == commit

    assert services.repositories.yanks(repo) == {}
    with pytest.raises(NotFound, match="`v1` of `ann/relu` is not yanked"):
        services.repositories.unyank(ann, repo, "v1")


@both
def test_a_repository_is_deprecated_until_it_is_not(services: Services, ann: Actor, repo: Repo) -> None:
    assert services.repositories.notice(repo) is None
    services.repositories.deprecate(ann, repo)
    assert services.repositories.notice(repo) == Notice("it is not maintained any more", None)
    services.repositories.deprecate(ann, repo, "slow", "other/relu")
    assert services.repositories.notice(repo) == Notice("slow", "other/relu")

    services.repositories.undeprecate(ann, repo)

    assert services.repositories.notice(repo) is None
    with pytest.raises(NotFound, match="`ann/relu` is not deprecated"):
        services.repositories.undeprecate(ann, repo)


def test_the_audit_log_has_every_change_with_who_and_why(services: Services, ann: Actor, repo: Repo) -> None:
    commit = services.repositories.yank(ann, repo, "v1", "bad")
    services.repositories.unyank(MACHINE, repo, "v1")
    services.repositories.deprecate(ann, repo, "old", "ann/new")
    services.repositories.undeprecate(ann, repo)

    found = events.read(services.database, subject="ann/relu", limit=4)[::-1]

    assert [(event.actor, event.action, event.commit) for event in found] == [
        ("ann", "yank", commit),
        (None, "yank.undo", commit),
        ("ann", "kernel.deprecate", None),
        ("ann", "kernel.deprecate.undo", None),
    ]
    assert found[0].details == {"revision": "v1", "reason": "bad"}
    assert found[2].details == {"message": "old", "successor": "ann/new"}


def test_only_who_may_write_there_says_something_against_it(services: Services, repo: Repo) -> None:
    repositories = services.repositories
    stranger = user(services, "sam", "admin")
    reader = services.people.actor(services.people.create_token("ann", label="r", scope="read"))
    for asker, refusal in ((ANONYMOUS, SignInRequired), (stranger, Forbidden), (reader, Forbidden)):
        for change in (
            lambda asker=asker: repositories.yank(asker, repo, "v1"),
            lambda asker=asker: repositories.unyank(asker, repo, "v1"),
            lambda asker=asker: repositories.deprecate(asker, repo),
            lambda asker=asker: repositories.undeprecate(asker, repo),
        ):
            with pytest.raises(refusal):
                change()
    assert repositories.remarks(repo, repositories.resolve_revision(repo, "v1")) == Remarks(None, None)


@pytest.mark.parametrize("text", ["two\nlines", "a\x1b[2J", "x" * 501])
def test_what_no_header_or_list_could_carry_is_refused(services: Services, ann: Actor, repo: Repo, text: str) -> None:
    with pytest.raises(BadRequest, match="one line of at most 500 characters"):
        services.repositories.yank(ann, repo, "v1", text)
    with pytest.raises(BadRequest, match="one line of at most 500 characters"):
        services.repositories.deprecate(ann, repo, text)


@pytest.mark.parametrize("successor", ["ann/relu", "Ann/RELU", "relu", "../x", ""])
def test_a_successor_is_another_repository(services: Services, ann: Actor, repo: Repo, successor: str) -> None:
    with pytest.raises(BadRequest):
        services.repositories.deprecate(ann, repo, "old", successor)


@both
def test_what_is_not_there_cannot_be_yanked_or_deprecated(services: Services, ann: Actor, repo: Repo) -> None:
    other = services.repositories.create(ann, "kernel", "ann/gelu", private=False)
    commit = publish(services, ann, other, b"x", "main")
    for revision in ("v2", "0" * 40, commit):
        with pytest.raises(RevisionNotFound):
            services.repositories.yank(ann, repo, revision)
    services.repositories.delete(ann, "kernel", "ann/relu")
    with pytest.raises(RepoNotFound, match="deleted meanwhile"):
        services.repositories.deprecate(ann, repo)


# On the wire


def ask(server: Server, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
    """(status, headers, what the body is as JSON)."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=30)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, answer.headers, json.loads(data) if data and is_json else None
    finally:
        connection.close()


@pytest.fixture
def token(server: Server) -> str:
    """Ann's; she has a kernel `ann/relu` with a file `a` on the branch `v1`."""
    token = str(server.user("ann"))
    actor = server.services.people.actor(token)
    made = server.services.repositories.create(actor, "kernel", "ann/relu", private=False)
    server.services.repositories.create_branch(actor, made, "v1", None)
    publish(server.services, actor, made, b"text")
    return token


@pytest.mark.server
def test_clients_are_told_of_a_yank_in_the_refs_and_with_every_file(server: Server, token: str) -> None:
    reason = "gives 100 % wrong results: naïve; \N{SNOWMAN}"
    status, _, done = ask(server, "POST", "/api/kernels/ann/relu/yank", {"revision": "v1", "reason": reason}, token)
    assert status == 200

    branches = ask(server, "GET", "/api/kernels/ann/relu/refs")[2]["branches"]
    assert {branch["name"]: branch.get("yanked") for branch in branches} == {"main": None, "v1": reason}
    for method in ("GET", "HEAD"):
        for revision in ("v1", done["commit"]):
            status, headers, _ = ask(server, method, f"/kernels/ann/relu/resolve/{revision}/a")
            assert status == 200
            assert unquote(headers["X-Kernel-Yanked"]) == reason
            assert headers["X-Kernel-Deprecated"] is None

    assert ask(server, "DELETE", "/api/kernels/ann/relu/yank", {"revision": "v1"}, token)[0] == 200
    assert "yanked" not in str(ask(server, "GET", "/api/kernels/ann/relu/refs")[2])
    assert ask(server, "HEAD", "/kernels/ann/relu/resolve/v1/a")[1]["X-Kernel-Yanked"] is None


@pytest.mark.server
def test_clients_are_told_of_a_deprecation_with_the_repository_and_every_file(server: Server, token: str) -> None:
    notice = {"message": "use the faster one", "successor": "ann/relu2"}
    status, _, done = ask(server, "POST", "/api/kernels/ann/relu/deprecate", notice, token)
    assert (status, done) == (200, {"deprecated": notice})

    assert ask(server, "GET", "/api/kernels/ann/relu")[2]["deprecated"] == notice
    assert ask(server, "HEAD", "/kernels/ann/relu/resolve/v1/a")[1]["X-Kernel-Deprecated"] == "use the faster one"

    assert ask(server, "DELETE", "/api/kernels/ann/relu/deprecate", token=token)[0] == 200
    assert "deprecated" not in ask(server, "GET", "/api/kernels/ann/relu")[2]


@pytest.mark.server
@pytest.mark.parametrize(
    ("method", "place", "body"),
    [
        ("POST", "yank", {"revision": "v1"}),
        ("DELETE", "yank", {"revision": "v1"}),
        ("POST", "deprecate", {}),
        ("DELETE", "deprecate", None),
    ],
)
def test_others_are_refused_and_learn_nothing_of_private_kernels(
    server: Server, token: str, method: str, place: str, body: Any
) -> None:
    server.services.repositories.create(server.services.people.actor(token), "kernel", "ann/secret", private=True)
    stranger = server.user("sam")
    assert ask(server, method, f"/api/kernels/ann/relu/{place}", body)[0] == 401
    assert ask(server, method, f"/api/kernels/ann/relu/{place}", body, stranger)[0] == 403
    for asker in (None, stranger):
        hidden = ask(server, method, f"/api/kernels/ann/secret/{place}", body, asker)
        absent = ask(server, method, f"/api/kernels/ann/absent/{place}", body, asker)
        assert (hidden[0], str(hidden[2]).replace("secret", "absent")) == (absent[0], str(absent[2]))


@pytest.mark.server
def test_stock_clients_are_not_disturbed(server: Server, token: str, run: Any, tmp_path: Any) -> None:
    actor = server.services.people.actor(token)
    made = server.services.repositories.get(actor, "kernel", "ann/relu")
    server.services.repositories.yank(actor, made, "v1", "bad")
    server.services.repositories.deprecate(actor, made, "old", "ann/new")
    program = """
        refs = api.list_repo_refs("ann/relu", repo_type="kernel")
        info = api.kernel_info("ann/relu")
        path = api.hf_hub_download("ann/relu", "a", repo_type="kernel", revision="v1")
        print(json.dumps([sorted(ref.name for ref in refs.branches), info.id, open(path).read()]))
    """
    assert run(server, tmp_path, program, token=None) == [["main", "v1"], "ann/relu", "text"]
