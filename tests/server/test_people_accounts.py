"""Users, organisations, members and tokens."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from kernelworks_server.errors import BadRequest, Conflict, InvalidToken, NotFound
from kernelworks_server.people import People
from kernelworks_server.rights import ANONYMOUS
from kernelworks_server.services import Services

pytestmark = pytest.mark.backing("sqlite+folder", "postgresql+folder")


@pytest.fixture
def people(services: Services) -> People:
    services.people.create_user("Alice", fullname="Alice A.")
    services.people.create_org("Acme")
    return services.people


def test_accounts_are_found_in_any_case_under_the_name_they_were_given(people: People) -> None:
    assert people.account("ALICE").name == "Alice"
    assert people.organisation("acme").name == "Acme"
    with pytest.raises(NotFound, match="no organisation is called `alice`"):
        people.organisation("alice")


@pytest.mark.parametrize("name", ["alice", "ACME"])
def test_users_and_organisations_share_one_space_of_names(people: People, name: str) -> None:
    for create in (people.create_user, people.create_org):
        with pytest.raises(Conflict):
            create(name)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", ".a", "-a", "a ", "é", "a\n", "x" * 97, "api", "Kernels"])
def test_names_that_addresses_cannot_hold_are_refused(people: People, name: str) -> None:
    with pytest.raises(BadRequest):
        people.create_org(name)


def test_the_first_start_makes_an_operator_once(services: Services) -> None:
    services.people.create_user("alice")
    token = services.people.begin()
    actor = services.people.actor(token)
    assert (actor.name, actor.operates) == ("admin", True)
    assert services.people.begin() is None


def test_a_token_speaks_for_its_user_with_all_memberships(people: People) -> None:
    people.add_member("acme", "alice", "read")
    people.add_member("acme", "alice", "write")
    actor = people.actor(people.create_token("alice", label="ci", scope="read"))
    assert (actor.name, actor.scope, actor.roles, actor.bound_to) == ("Alice", "read", {"Acme": "write"}, None)
    assert people.members("acme") == {"Alice": "write"}
    people.remove_member("acme", "alice")
    assert people.memberships("alice") == {}


def test_without_a_token_one_is_nobody_and_with_a_wrong_one_refused(people: People) -> None:
    token = people.create_token("alice", label="ci", scope="read")
    assert people.actor(None) is ANONYMOUS
    for wrong in ("", "kw_", token[:-1], f"{token}x", token.upper(), "\ud800", "x" * 100_000):
        with pytest.raises(InvalidToken, match=r"^Invalid credentials in Authorization header$"):
            people.actor(wrong)


def test_a_revoked_and_an_expired_token_are_unknown(people: People) -> None:
    revoked = people.create_token("alice", label="a", scope="read")
    expired = people.create_token("alice", label="b", scope="read", lifetime=timedelta(0))
    lasting = people.create_token("alice", label="c", scope="read", lifetime=timedelta(days=1))
    people.revoke("alice", "a")
    for token in (revoked, expired):
        with pytest.raises(InvalidToken):
            people.actor(token)
    assert people.actor(lasting).name == "Alice"
    with pytest.raises(NotFound):
        people.revoke("alice", "a")


def test_a_token_bound_to_an_organisation_says_so(people: People) -> None:
    actor = people.actor(people.create_token("alice", label="ci", scope="write", org="acme"))
    assert actor.bound_to == "Acme"
    (known,) = people.tokens("alice")
    assert (known.label, known.scope, known.org, known.revoked) == ("ci", "write", "Acme", None)


def test_a_label_is_used_once_and_a_scope_is_one_of_three(people: People) -> None:
    people.create_token("alice", label="ci", scope="read")
    with pytest.raises(Conflict):
        people.create_token("alice", label="ci", scope="write")
    for label, scope in (("x", "none"), ("x", "root"), ("", "read"), ("a\nb", "read")):
        with pytest.raises(BadRequest):
            people.create_token("alice", label=label, scope=scope)


@pytest.mark.backing("sqlite+folder")  # whose files can be searched
def test_no_token_is_kept_in_the_clear(people: People, services: Services) -> None:
    token = people.create_token("alice", label="ci", scope="read")
    files: list[Path] = [path for path in services.config.root.rglob("*") if path.is_file()]
    assert any(b"Alice" in path.read_bytes() for path in files)
    assert not any(token.removeprefix("kw_").encode() in path.read_bytes() for path in files)


def test_trust_is_given_to_organisations_and_withdrawn(people: People) -> None:
    people.set_trusted("acme", trusted=True)
    assert people.organisation("acme").trusted
    people.set_trusted("acme", trusted=False)
    assert not people.organisation("acme").trusted
    with pytest.raises(NotFound):
        people.set_trusted("alice", trusted=True)
