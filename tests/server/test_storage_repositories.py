"""Repositories, refs, commits and files: what they do, what they refuse, and that nobody reads another's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from kernelworks_server.errors import (
    BadRequest,
    Conflict,
    EntryNotFound,
    Forbidden,
    NotFound,
    PreconditionFailed,
    RepoNotFound,
    RevisionNotFound,
    SignInRequired,
    TooLarge,
    Unprocessable,
)
from kernelworks_server.records import AddFile, CopyFile, DeleteFile, DeleteFolder, Entry, Operation, Repo
from kernelworks_server.rights import ANONYMOUS, Actor
from kernelworks_server.services import Services

pytestmark = pytest.mark.backing("sqlite+folder", "postgresql+folder")

NOBODY = "0" * 40


@pytest.fixture
def alice(services: Services) -> Actor:
    """A user with a writing token."""
    return user(services, "alice")


@pytest.fixture
def repo(services: Services, alice: Actor) -> Repo:
    return services.repositories.create(alice, "kernel", "alice/relu", private=False)


def user(services: Services, name: str, scope: str = "write") -> Actor:
    services.people.create_user(name)
    return services.people.actor(services.people.create_token(name, label="t", scope=scope))


def add(services: Services, repo: Repo, path: str, data: bytes = b"", *, lfs: bool = False) -> AddFile:
    return AddFile(path, *services.repositories.receive(repo, [data], expected=None, limit=1 << 20), lfs)


def commit(
    services: Services,
    actor: Actor,
    repo: Repo,
    *operations: Operation,
    branch: str = "main",
    parent: str | None = None,
    message: str = "change",
) -> str:
    return services.repositories.commit(actor, repo, branch, operations, message=message, description="", parent=parent)


def listed(services: Services, repo: Repo, commit: str, folder: str = "", limit: int = 100) -> list[str]:
    """All paths below `folder`, page by page."""
    paths: list[str] = []
    after: str | None = None
    while True:
        page, after = services.repositories.tree(repo, commit, folder, recursive=True, after=after, limit=limit)
        paths += [entry.path for entry in page]
        if after is None:
            return paths


# Repositories


def test_a_new_repository_has_an_empty_first_commit_on_main(services: Services, repo: Repo) -> None:
    (main,) = services.repositories.refs(repo)
    assert (main.name, main.kind) == ("main", "branch")
    assert services.repositories.tree(repo, main.commit, "", recursive=True, after=None, limit=10) == ([], None)
    assert services.repositories.commit_info(repo, main.commit).parent is None


def test_a_repository_is_found_in_any_case_under_the_name_it_was_given(services: Services, repo: Repo) -> None:
    assert services.repositories.get(ANONYMOUS, "kernel", "ALICE/Relu") == repo
    assert services.repositories.find(repo.id) == repo


def test_kernels_and_models_are_two_spaces_of_names(services: Services, alice: Actor, repo: Repo) -> None:
    model = services.repositories.create(alice, "model", repo.repo_id, private=False)
    assert model.id != repo.id
    with pytest.raises(Conflict):
        services.repositories.create(alice, "kernel", "alice/RELU", private=False)


@pytest.mark.parametrize(
    "repo_id", ["relu", "alice/../x", "alice/a..b", "alice/", "alice/a/b", "alice/a\n", "alice/.git"]
)
def test_what_is_no_repository_id_is_refused(services: Services, alice: Actor, repo_id: str) -> None:
    with pytest.raises(BadRequest):
        services.repositories.create(alice, "kernel", repo_id, private=False)
    with pytest.raises(RepoNotFound):
        services.repositories.get(alice, "kernel", repo_id)


def test_a_repository_can_be_made_where_one_may_write_and_nowhere_else(services: Services, alice: Actor) -> None:
    services.people.create_org("acme")
    with pytest.raises(SignInRequired):
        services.repositories.create(ANONYMOUS, "kernel", "acme/x", private=False)
    for owner in ("acme", "nobody"):  # who may not write there does not learn whether it exists
        with pytest.raises(Forbidden, match=f"may not create repositories of `{owner}`"):
            services.repositories.create(alice, "kernel", f"{owner}/x", private=False)
    services.people.add_member("acme", "alice", "write")
    member = services.people.actor(services.people.create_token("alice", label="2", scope="write"))
    assert services.repositories.create(member, "kernel", "ACME/x", private=True).repo_id == "acme/x"


def test_an_operator_is_told_that_an_owner_does_not_exist(services: Services) -> None:
    operator = services.people.actor(services.people.begin())
    with pytest.raises(NotFound, match="`nobody`"):
        services.repositories.create(operator, "kernel", "nobody/x", private=False)


def test_a_private_repository_looks_to_others_as_if_it_were_not_there(services: Services, alice: Actor) -> None:
    services.repositories.create(alice, "kernel", "alice/secret", private=True)
    bob = user(services, "bob")
    for actor, status in ((bob, 404), (ANONYMOUS, 401)):
        answers = []
        for name in ("secret", "absent"):
            with pytest.raises(RepoNotFound) as caught:
                services.repositories.get(actor, "kernel", f"alice/{name}")
            answers.append(str(caught.value.http()).replace(name, "NAME"))
        assert answers[0] == answers[1]
        assert answers[0].startswith(f"({status}, ")
        assert services.repositories.search(actor, kind="kernel") == []
    assert [found.name for found in services.repositories.search(alice, kind="kernel")] == ["secret"]


def test_a_repository_goes_with_its_history_and_its_number_never_comes_back(
    services: Services, alice: Actor, repo: Repo
) -> None:
    old = commit(services, alice, repo, add(services, repo, "a"))
    services.repositories.delete(alice, "kernel", repo.repo_id)
    with pytest.raises(RepoNotFound):
        services.repositories.find(repo.id)
    new = services.repositories.create(alice, "kernel", repo.repo_id, private=False)
    assert new.id != repo.id
    with pytest.raises(RevisionNotFound):
        services.repositories.resolve_revision(new, old)


def test_a_writer_of_an_organisation_commits_but_does_not_delete(services: Services) -> None:
    services.people.create_org("acme")
    user(services, "alice")
    services.people.add_member("acme", "alice", "write")
    writer = services.people.actor(services.people.create_token("alice", label="2", scope="write"))
    repo = services.repositories.create(writer, "kernel", "acme/x", private=False)
    commit(services, writer, repo, add(services, repo, "a"))
    with pytest.raises(Forbidden):
        services.repositories.delete(writer, "kernel", "acme/x")


def test_search_pages_through_what_the_words_and_the_author_ask_for(services: Services, alice: Actor) -> None:
    bob = user(services, "bob")
    for actor, names in ((alice, ["relu", "gelu_fast", "GELU2"]), (bob, ["gelu"])):
        for name in names:
            services.repositories.create(actor, "kernel", f"{actor.name}/{name}", private=False)

    def search(**wanted: str) -> list[str]:
        found: list[str] = []
        while page := services.repositories.search(
            ANONYMOUS, kind="kernel", limit=1, after=found[-1] if found else None, **wanted
        ):
            found += [repo.repo_id for repo in page]
        return found

    assert search(text="gelu") == ["alice/GELU2", "alice/gelu_fast", "bob/gelu"]
    assert search(text="GELU", author="Alice") == ["alice/GELU2", "alice/gelu_fast"]
    assert search(text="_") == ["alice/gelu_fast"]
    assert search(text="%") == []


# Refs


def test_branches_and_tags_mean_their_commits(services: Services, alice: Actor, repo: Repo) -> None:
    first = services.repositories.resolve_revision(repo, "main")
    services.repositories.create_branch(alice, repo, "v1", None)
    second = commit(services, alice, repo, add(services, repo, "a"), branch="v1")
    services.repositories.create_tag(alice, repo, "release/1.0", "v1", "the first")
    commit(services, alice, repo, add(services, repo, "b"), branch="v1")
    for revision, expected in {
        "main": first,
        "refs/heads/main": first,
        "release/1.0": second,
        "refs/tags/release/1.0": second,
        second: second,
    }.items():
        assert services.repositories.resolve_revision(repo, revision) == expected
    assert [(ref.name, ref.kind, ref.message) for ref in services.repositories.refs(repo)] == [
        ("main", "branch", ""),
        ("release/1.0", "tag", "the first"),
        ("v1", "branch", ""),
    ]
    for revision in ("refs/tags/main", "refs/heads/release/1.0", second[:39], second.upper(), "absent", "", "HEAD"):
        with pytest.raises(RevisionNotFound):
            services.repositories.resolve_revision(repo, revision)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".a",
        "a.",
        "a/",
        "/a",
        "a//b",
        "a..b",
        "a/.b",
        "a.lock",
        "refs/heads/x",
        "a b",
        "-a",
        "a\n",
        "é",
        "f" * 40,
        "x" * 251,
    ],
)
def test_names_that_no_ref_can_have_are_refused(services: Services, alice: Actor, repo: Repo, name: str) -> None:
    with pytest.raises(BadRequest):
        services.repositories.create_branch(alice, repo, name, None)


def test_a_ref_is_made_once_and_deleted_as_what_it_is(services: Services, alice: Actor, repo: Repo) -> None:
    services.repositories.create_branch(alice, repo, "v1", None)
    with pytest.raises(Conflict):
        services.repositories.create_branch(alice, repo, "v1", None)
    with pytest.raises(Conflict):
        services.repositories.create_tag(alice, repo, "v1", "main", "")
    with pytest.raises(RevisionNotFound):
        services.repositories.delete_tag(alice, repo, "v1")
    services.repositories.delete_branch(alice, repo, "v1")
    with pytest.raises(RevisionNotFound):
        services.repositories.resolve_revision(repo, "v1")
    with pytest.raises(BadRequest):
        services.repositories.delete_branch(alice, repo, "main")


def test_who_may_only_read_changes_no_ref(services: Services, repo: Repo) -> None:
    bob = user(services, "bob")
    for actor, refusal in ((bob, Forbidden), (ANONYMOUS, SignInRequired)):
        for change in (
            lambda actor=actor: services.repositories.create_branch(actor, repo, "x", None),
            lambda actor=actor: services.repositories.delete_branch(actor, repo, "x"),
            lambda actor=actor: services.repositories.create_tag(actor, repo, "x", "main", ""),
            lambda actor=actor: services.repositories.delete_tag(actor, repo, "x"),
            lambda actor=actor: commit(services, actor, repo, DeleteFile("x")),
        ):
            with pytest.raises(refusal):
                change()


# Commits and files


def test_a_commit_holds_what_it_was_given(services: Services, alice: Actor, repo: Repo) -> None:
    small, large = (
        add(services, repo, "build/x/m.py", b"1\n"),
        add(services, repo, "build/x/m.so", b"\x7fELF", lfs=True),
    )
    new = commit(services, alice, repo, small, large, message="first build")
    entry = services.repositories.entry(repo, new, "build/x/m.py")
    # `git hash-object` of the two bytes
    assert entry == Entry(
        "build/x/m.py", "file", 2, "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d", small.sha256, lfs=False
    )
    assert b"".join(services.blobs.read(entry.sha256)) == b"1\n"
    assert services.repositories.entry(repo, new, "build/x/m.so").lfs
    assert services.repositories.entry(repo, new, "build").kind == "directory"
    info = services.repositories.commit_info(repo, new)
    assert (info.message, info.author) == ("first build", "alice")
    assert services.repositories.get(alice, "kernel", repo.repo_id).updated >= info.created


def test_trees_are_paged_in_the_order_of_their_paths(services: Services, alice: Actor, repo: Repo) -> None:
    paths = ["a/b/c", "a/b.txt", "a-1", "b", "c/d"]
    new = commit(services, alice, repo, *(add(services, repo, path) for path in paths))
    whole = ["a", "a/b", "a/b/c", "a/b.txt", "a-1", "b", "c", "c/d"]
    for limit in (1, 2, 3, 8, 100):
        assert listed(services, repo, new, limit=limit) == whole
    assert listed(services, repo, new, "a", limit=1) == ["a/b", "a/b/c", "a/b.txt"]
    page, after = services.repositories.tree(repo, new, "", recursive=False, after=None, limit=3)
    assert ([entry.path for entry in page], after) == (["a", "a-1", "b"], "b")
    page, after = services.repositories.tree(repo, new, "", recursive=False, after=after, limit=3)
    assert ([entry.path for entry in page], after) == (["c"], None)


def test_what_is_not_in_a_commit_is_not_found_under_its_id(services: Services, alice: Actor, repo: Repo) -> None:
    new = commit(services, alice, repo, add(services, repo, "a/b"))
    for path in ("x", "a/x", "a/b/c", "", "a/", "/a", "a/../a"):
        with pytest.raises(EntryNotFound) as caught:
            services.repositories.entry(repo, new, path)
        assert caught.value.http()[1]["X-Repo-Commit"] == new
    for folder in ("x", "a/b"):
        with pytest.raises(EntryNotFound):
            services.repositories.tree(repo, new, folder, recursive=True, after=None, limit=1)
    found = services.repositories.paths_info(repo, new, ["x", "a/b", "a"])
    assert [(entry.path, entry.kind) for entry in found] == [("a/b", "file"), ("a", "directory")]


def test_the_history_is_paged_from_the_newest_to_the_first(services: Services, alice: Actor, repo: Repo) -> None:
    ids = [services.repositories.resolve_revision(repo, "main")]
    ids += [commit(services, alice, repo, add(services, repo, str(number))) for number in range(4)]
    found: list[str] = []
    after: str | None = None
    while True:
        page, after = services.repositories.commits(repo, ids[-1], after=after, limit=2)
        found += [info.id for info in page]
        if after is None:
            break
    assert found == ids[::-1]


def test_deletions_come_first_so_that_a_folder_can_become_a_file(services: Services, alice: Actor, repo: Repo) -> None:
    commit(services, alice, repo, add(services, repo, "a/b"), add(services, repo, "c"))
    new = commit(services, alice, repo, add(services, repo, "a"), DeleteFolder("a"), DeleteFile("c"))
    assert listed(services, repo, new) == ["a"]


def test_a_copy_is_what_the_source_was_at_its_revision(services: Services, alice: Actor, repo: Repo) -> None:
    old = commit(services, alice, repo, add(services, repo, "a", b"old", lfs=True))
    commit(services, alice, repo, add(services, repo, "a", b"new"))
    new = commit(services, alice, repo, CopyFile("x", "a", old), CopyFile("y", "a", None))
    x, y = services.repositories.paths_info(repo, new, ["x", "y"])
    assert (b"".join(services.blobs.read(x.sha256)), x.lfs) == (b"old", True)
    assert (b"".join(services.blobs.read(y.sha256)), y.lfs) == (b"new", False)


def test_a_commit_that_changes_nothing_is_the_head(services: Services, alice: Actor, repo: Repo) -> None:
    head = commit(services, alice, repo, add(services, repo, "a", b"1"))
    assert commit(services, alice, repo, add(services, repo, "a", b"1")) == head
    assert commit(services, alice, repo) == head


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "../a",
        "a/../b",
        "./a",
        "a//b",
        "a\\b",
        "C:a",
        "a\0b",
        "a\nb",
        "\ud800",
        "x" * 256,
        ".git/config",
        "a/.GIT/x",
    ],
)
def test_paths_that_leave_the_repository_or_trick_tools_are_refused(
    services: Services, alice: Actor, repo: Repo, path: str
) -> None:
    source = add(services, repo, "ok")
    for operation in (
        AddFile(path, source.sha256, source.size, lfs=False),
        CopyFile(path, "ok", None),
        DeleteFile(path),
        DeleteFolder(path),
    ):
        with pytest.raises(BadRequest):
            commit(services, alice, repo, operation)


def test_operations_that_contradict_each_other_change_nothing(services: Services, alice: Actor, repo: Repo) -> None:
    head = commit(services, alice, repo, add(services, repo, "f"), add(services, repo, "d/x"))
    refused: Sequence[tuple[type[Exception], list[Operation]]] = [
        (BadRequest, [add(services, repo, "a"), add(services, repo, "a")]),
        (Conflict, [add(services, repo, "a"), add(services, repo, "A")]),
        (Conflict, [add(services, repo, "F")]),
        (Conflict, [add(services, repo, "f/x")]),
        (Conflict, [add(services, repo, "d")]),
        (EntryNotFound, [DeleteFile("d")]),
        (EntryNotFound, [DeleteFolder("f")]),
        (EntryNotFound, [DeleteFile("absent")]),
        (EntryNotFound, [CopyFile("y", "d", None)]),
        (RevisionNotFound, [CopyFile("y", "f", NOBODY)]),
        (TooLarge, [DeleteFile("f")] * 25_001),
    ]
    for error, operations in refused:
        with pytest.raises(error):
            commit(services, alice, repo, add(services, repo, "new"), *operations)
    assert services.repositories.resolve_revision(repo, "main") == head


def test_a_large_file_must_not_travel_inside_the_commit(services: Services, alice: Actor, repo: Repo) -> None:
    data = b"x" * (services.config.limits.regular_file + 1)
    sha256, size = services.repositories.receive(repo, [data], expected=None, limit=len(data))
    with pytest.raises(TooLarge, match="LFS"):
        commit(services, alice, repo, AddFile("a", sha256, size, lfs=False))
    commit(services, alice, repo, AddFile("a", sha256, size, lfs=True))


def test_commits_go_to_branches_that_exist(services: Services, alice: Actor, repo: Repo) -> None:
    services.repositories.create_tag(alice, repo, "tag", "main", "")
    for branch in ("absent", "tag", services.repositories.resolve_revision(repo, "main")):
        with pytest.raises(RevisionNotFound):
            commit(services, alice, repo, add(services, repo, "a"), branch=branch)


# Nobody reads another's


def test_a_commit_of_one_repository_is_unknown_in_every_other(services: Services, alice: Actor, repo: Repo) -> None:
    secret = services.repositories.create(alice, "kernel", "alice/secret", private=True)
    hidden = commit(services, alice, secret, add(services, secret, "a", b"secret"))
    for read in (
        lambda: services.repositories.resolve_revision(repo, hidden),
        lambda: services.repositories.commit_info(repo, hidden),
        lambda: services.repositories.commits(repo, hidden),
        lambda: services.repositories.commits(repo, services.repositories.resolve_revision(repo, "main"), after=hidden),
        lambda: services.repositories.tree(repo, hidden, "", recursive=True, after=None, limit=10),
        lambda: services.repositories.entry(repo, hidden, "a"),
        lambda: services.repositories.paths_info(repo, hidden, ["a"]),
        lambda: services.repositories.create_branch(alice, repo, "x", hidden),
        lambda: services.repositories.create_tag(alice, repo, "x", hidden, ""),
        lambda: commit(services, alice, repo, CopyFile("a", "a", hidden)),
    ):
        with pytest.raises(RevisionNotFound):
            read()


def test_to_know_the_hash_of_another_repositorys_file_gives_nobody_its_bytes(
    services: Services, alice: Actor, repo: Repo
) -> None:
    secret = services.repositories.create(alice, "kernel", "alice/secret", private=True)
    held = add(services, secret, "a", b"secret")
    commit(services, alice, secret, held)
    assert services.repositories.held(repo, [held.sha256]) == {}
    for lfs in (True, False):
        with pytest.raises(Unprocessable, match="uploaded to `alice/relu`"):
            commit(services, alice, repo, AddFile("a", held.sha256, held.size, lfs))
    add(services, repo, "a", b"secret")  # who has the bytes may say so
    assert services.repositories.held(repo, [held.sha256, "0" * 64]) == {held.sha256: 6}


def test_a_size_that_is_not_the_files_is_refused(services: Services, alice: Actor, repo: Repo) -> None:
    sent = add(services, repo, "a", b"12345")
    with pytest.raises(Unprocessable):
        commit(services, alice, repo, AddFile("a", sent.sha256, 4, lfs=True))


def test_xorbs_belong_to_their_repository(services: Services, alice: Actor, repo: Repo) -> None:
    other = services.repositories.create(alice, "kernel", "alice/other", private=False)
    name = "ab" * 32
    assert services.repositories.receive_xorb(repo, name, [b"xorb"], limit=10)
    assert not services.repositories.receive_xorb(repo, name, [b"xorb"], limit=10)
    assert services.repositories.xorb(other, name) is None
    stored = services.repositories.xorb(repo, name)
    assert stored is not None
    assert b"".join(services.blobs.read(stored)) == b"xorb"


# At the same time


def test_a_stale_parent_is_refused_with_what_the_head_is(services: Services, alice: Actor, repo: Repo) -> None:
    first = services.repositories.resolve_revision(repo, "main")
    second = commit(services, alice, repo, add(services, repo, "a"), parent=first)
    with pytest.raises(PreconditionFailed) as caught:
        commit(services, alice, repo, add(services, repo, "b"), parent=first)
    assert caught.value.context == {"expected": first, "got": second}


def test_of_commits_on_one_parent_at_once_exactly_one_wins(services: Services, alice: Actor, repo: Repo) -> None:
    parent = services.repositories.resolve_revision(repo, "main")
    outcomes = at_once(
        8, lambda number: commit(services, alice, repo, add(services, repo, f"f{number}"), parent=parent)
    )
    won = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert won == [services.repositories.resolve_revision(repo, "main")]
    assert [type(outcome) for outcome in outcomes if not isinstance(outcome, str)] == [PreconditionFailed] * 7


def test_commits_without_a_parent_at_once_all_arrive(services: Services, alice: Actor, repo: Repo) -> None:
    outcomes = at_once(8, lambda number: commit(services, alice, repo, add(services, repo, f"f{number}")))
    head = services.repositories.resolve_revision(repo, "main")
    assert listed(services, repo, head) == [f"f{number}" for number in range(8)]
    history, _ = services.repositories.commits(repo, head)
    assert {info.id for info in history[:-1]} == set(outcomes)


def test_of_two_that_make_one_repository_at_once_one_does(services: Services, alice: Actor) -> None:
    outcomes = at_once(4, lambda _: services.repositories.create(alice, "kernel", "alice/x", private=False))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict"] * 3 + ["Repo"]


def at_once(count: int, work: Callable[[int], object]) -> list[object]:
    """What `work(number)` returned or raised, in as many threads that start together."""
    outcomes: list[object] = [None] * count
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        gate.wait()
        try:
            outcomes[number] = work(number)
        except Exception as error:  # noqa: BLE001  # it is the outcome
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
