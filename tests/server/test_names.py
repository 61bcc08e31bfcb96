"""Renames: the old name leads on until another repository takes it, and never betrays what is private."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete

from kernelworks_server import events
from kernelworks_server.database.tables import accounts
from kernelworks_server.errors import BadRequest, Conflict, Forbidden, NotFound, RepoMoved, RepoNotFound, SignInRequired
from kernelworks_server.records import AddFile
from kernelworks_server.rights import ANONYMOUS, MACHINE, Actor
from kernelworks_server.services import Services

pytestmark = pytest.mark.backing("sqlite+folder", "postgresql+folder")


def user(services: Services, name: str, scope: str = "write") -> Actor:
    services.people.create_user(name)
    return services.people.actor(services.people.create_token(name, label="t", scope=scope))


@pytest.fixture
def ann(services: Services) -> Actor:
    """She administers `acme`, writes in `beta`, and owns a kernel `ann/a`."""
    user(services, "ann")
    for org, role in (("acme", "admin"), ("beta", "write")):
        services.people.create_org(org)
        services.people.add_member(org, "ann", role)
    actor = services.people.actor(services.people.create_token("ann", label="all", scope="write"))
    services.repositories.create(actor, "kernel", "ann/a", private=False)
    return actor


def leads_to(services: Services, repo_id: str, asker: Actor = ANONYMOUS) -> str:
    """The present id of the repository that was called so."""
    with pytest.raises(RepoMoved) as moved:
        services.repositories.get(asker, "kernel", repo_id)
    return moved.value.repo_id


def test_all_that_is_in_it_goes_with_a_repository(services: Services, ann: Actor) -> None:
    repositories = services.repositories
    old = repositories.get(ann, "kernel", "ann/a")
    file = AddFile("f", *repositories.receive(old, [b"text"], expected=None, limit=9), lfs=False)
    commit = repositories.commit(ann, old, "main", [file], message="m", description="", parent=None)
    repositories.yank(ann, old, "main", "bad")

    new = repositories.rename(ann, "kernel", "ann/A", "acme/b")

    assert (new.repo_id, new.owner, new.id, new.created) == ("acme/b", "acme", old.id, old.created)
    assert repositories.get(ann, "kernel", "acme/b") == new
    assert repositories.entry(new, commit, "f").size == 4
    assert repositories.yanks(new) == {commit: "bad"}
    assert [repo.repo_id for repo in repositories.search(ANONYMOUS, kind="kernel")] == ["acme/b"]
    assert leads_to(services, "ann/a") == leads_to(services, "Ann/A") == "acme/b"


def test_every_name_of_a_chain_leads_to_the_last_one(services: Services, ann: Actor) -> None:
    for old, new in (("ann/a", "ann/b"), ("ann/b", "acme/c"), ("acme/c", "acme/d")):
        services.repositories.rename(ann, "kernel", old, new)
    assert {leads_to(services, name) for name in ("ann/a", "ann/b", "acme/c")} == {"acme/d"}


def test_a_repository_can_have_its_former_name_again(services: Services, ann: Actor) -> None:
    services.repositories.rename(ann, "kernel", "ann/a", "ann/b")
    services.repositories.rename(ann, "kernel", "ann/b", "ann/a")
    assert services.repositories.get(ANONYMOUS, "kernel", "ann/a").repo_id == "ann/a"
    assert leads_to(services, "ann/b") == "ann/a"


def test_a_new_repository_takes_a_former_name_over(services: Services, ann: Actor) -> None:
    services.repositories.rename(ann, "kernel", "ann/a", "ann/b")
    new = services.repositories.create(ann, "kernel", "ann/a", private=False)
    assert services.repositories.get(ANONYMOUS, "kernel", "ann/a") == new
    services.repositories.delete(ann, "kernel", "ann/a")
    with pytest.raises(RepoNotFound):
        services.repositories.get(ANONYMOUS, "kernel", "ann/a")


def test_a_renamed_repository_takes_the_former_name_of_another_over(services: Services, ann: Actor) -> None:
    services.repositories.create(ann, "kernel", "ann/x", private=False)
    services.repositories.rename(ann, "kernel", "ann/a", "ann/b")
    services.repositories.rename(ann, "kernel", "ann/x", "ann/a")
    assert services.repositories.get(ANONYMOUS, "kernel", "ann/a").repo_id == "ann/a"
    assert leads_to(services, "ann/x") == "ann/a"


def test_another_repository_is_never_replaced(services: Services, ann: Actor) -> None:
    other = services.repositories.create(ann, "kernel", "ann/b", private=True)
    with pytest.raises(Conflict, match="kernel `ann/B` exists already"):
        services.repositories.rename(ann, "kernel", "ann/a", "ann/B")
    assert services.repositories.get(ann, "kernel", "ann/b") == other
    assert services.repositories.get(ann, "kernel", "ann/a").repo_id == "ann/a"


def test_of_two_that_want_one_name_at_the_same_time_one_gets_it(services: Services, ann: Actor) -> None:
    olds = [f"ann/x{number}" for number in range(6)]
    for old in olds:
        services.repositories.create(ann, "kernel", old, private=False)

    def rename(old: str) -> bool:
        try:
            services.repositories.rename(ann, "kernel", old, "ann/b")
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(len(olds)) as threads:
        won = list(threads.map(rename, olds))

    assert won.count(True) == 1
    assert leads_to(services, olds[won.index(True)]) == "ann/b"
    for old, moved in zip(olds, won, strict=True):
        assert moved or services.repositories.get(ann, "kernel", old).repo_id == old


def test_a_name_of_another_kind_is_another_name(services: Services, ann: Actor) -> None:
    services.repositories.create(ann, "model", "ann/b", private=False)
    services.repositories.rename(ann, "kernel", "ann/a", "ann/b")
    with pytest.raises(RepoNotFound):
        services.repositories.get(ann, "model", "ann/a")


def test_the_case_of_a_name_can_change_and_leaves_no_former_name(services: Services, ann: Actor) -> None:
    services.repositories.rename(ann, "kernel", "ann/a", "ann/A")
    assert services.repositories.get(ANONYMOUS, "kernel", "ann/a").repo_id == "ann/A"
    services.repositories.delete(ann, "kernel", "ann/a")
    with pytest.raises(RepoNotFound):
        services.repositories.get(ANONYMOUS, "kernel", "ann/a")


def test_the_same_name_again_changes_nothing(services: Services, ann: Actor) -> None:
    before = events.read(services.database, limit=99)
    repo = services.repositories.rename(ann, "kernel", "ann/a", "Ann/a")
    assert repo == services.repositories.get(ann, "kernel", "ann/a")
    assert events.read(services.database, limit=99) == before


def test_former_names_end_with_the_repository_and_with_its_owner(services: Services, ann: Actor) -> None:
    services.repositories.create(ann, "kernel", "ann/x", private=False)
    services.repositories.rename(ann, "kernel", "ann/x", "ann/y")
    services.repositories.rename(ann, "kernel", "ann/a", "acme/b")
    services.repositories.delete(ann, "kernel", "ann/y")
    with services.database.write() as connection:
        connection.execute(delete(accounts).where(accounts.c.name == "acme"))
    for name in ("ann/x", "ann/a", "acme/b"):
        with pytest.raises(RepoNotFound):
            services.repositories.get(ANONYMOUS, "kernel", name)


def test_both_names_tell_of_it_in_the_audit_log(services: Services, ann: Actor) -> None:
    services.repositories.rename(ann, "kernel", "ann/a", "acme/b")
    (left,), (came,) = (
        [event for event in events.read(services.database, subject=name, limit=9) if event.action == "kernel.rename"]
        for name in ("ann/a", "acme/b")
    )
    assert (left.actor, left.details) == ("ann", {"to": "acme/b"})
    assert (came.actor, came.details) == ("ann", {"former": "ann/a"})


def test_it_takes_admin_where_it_is_and_write_where_it_goes(services: Services, ann: Actor) -> None:
    rename = services.repositories.rename
    rename(ann, "kernel", "ann/a", "beta/a")  # she writes there
    with pytest.raises(Forbidden, match="may not rename `beta/a`"):
        rename(ann, "kernel", "beta/a", "ann/a")  # and does not administer it
    rename(MACHINE, "kernel", "beta/a", "acme/a")

    bound = services.people.actor(services.people.create_token("ann", label="b", scope="admin", org="acme"))
    reader = services.people.actor(services.people.create_token("ann", label="r", scope="read"))
    stranger = user(services, "sam", "admin")
    with pytest.raises(Forbidden, match="may not create repositories of `ann`"):
        rename(bound, "kernel", "acme/a", "ann/a")
    for actor in (reader, stranger):
        with pytest.raises(Forbidden):
            rename(actor, "kernel", "acme/a", "acme/b")
    with pytest.raises(SignInRequired):
        rename(ANONYMOUS, "kernel", "acme/a", "acme/b")
    assert services.repositories.get(ann, "kernel", "acme/a").repo_id == "acme/a"


@pytest.mark.parametrize("new", ["a", "ann/", "ann/../a", "ann/a b", "ann/a/b"])
def test_a_new_name_is_one_that_a_repository_can_have(services: Services, ann: Actor, new: str) -> None:
    with pytest.raises(BadRequest):
        services.repositories.rename(ann, "kernel", "ann/a", new)


def test_a_new_owner_exists_and_an_old_name_is_no_handle(services: Services, ann: Actor) -> None:
    with pytest.raises(NotFound, match="no user or organisation is called `nobody`"):
        services.repositories.rename(MACHINE, "kernel", "ann/a", "nobody/a")
    services.repositories.rename(ann, "kernel", "ann/a", "ann/b")
    for act in (
        lambda: services.repositories.delete(ann, "kernel", "ann/a"),
        lambda: services.repositories.rename(ann, "kernel", "ann/a", "ann/c"),
    ):
        with pytest.raises(RepoMoved, match="kernel `ann/a` is now `ann/b`"):
            act()


def test_a_former_name_betrays_nothing_to_who_may_not_read_the_repository(services: Services, ann: Actor) -> None:
    services.repositories.create(ann, "kernel", "acme/secret", private=True)
    services.repositories.rename(ann, "kernel", "acme/secret", "ann/hidden")
    services.people.create_user("mia")
    services.people.add_member("acme", "mia", "admin")  # of the owner it had, not of the one it has
    mia = services.people.actor(services.people.create_token("mia", label="t", scope="admin"))
    assert leads_to(services, "acme/secret", ann) == "ann/hidden"
    for asker in (ANONYMOUS, mia):
        said = []
        for name in ("secret", "absent"):
            with pytest.raises(RepoNotFound) as refused:
                services.repositories.get(asker, "kernel", f"acme/{name}")
            said.append((str(refused.value).replace(name, "?"), refused.value.http()[0]))
        assert said[0] == said[1]
