"""Who may do what, as a table."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kernelworks_server.rights import ANONYMOUS, Actor, may, readable_owners


@dataclass(frozen=True)
class Place:
    owner: str
    private: bool


ROLES = {"reads": "read", "writes": "write", "runs": "admin"}


def actor(scope: str, *, bound_to: str | None = None, operator: bool = False) -> Actor:
    return Actor("alice", scope, ROLES, bound_to, operator)


# who, and what they may do at: their own private place, the private ones of three organisations, a stranger's private
# and a stranger's public one ("-": nothing, "r": read, "w": read and write, "a": all)
TABLE = {
    "nobody": (ANONYMOUS, "-----r"),
    "a reading token": (actor("read"), "rrrr-r"),
    "a writing token": (actor("write"), "arwa-r"),
    "an admin token": (actor("admin"), "arwa-r"),
    "a writing token for one organisation": (actor("write", bound_to="runs"), "---a-r"),
    "a writing token for the user's own": (actor("write", bound_to="alice"), "a----r"),
    "a token for an organisation of others": (actor("admin", bound_to="others"), "-----r"),
    "an operator's admin token": (actor("admin", operator=True), "aaaaaa"),
    "an operator's writing token": (actor("write", operator=True), "arwa-r"),
    "an operator's bound token": (actor("admin", operator=True, bound_to="runs"), "---a-r"),
}
PLACES = [
    Place("alice", private=True),
    Place("reads", private=True),
    Place("writes", private=True),
    Place("runs", private=True),
    Place("others", private=True),
    Place("others", private=False),
]
ALLOWED = {"-": [], "r": ["read"], "w": ["read", "write"], "a": ["read", "write", "admin"]}


@pytest.mark.parametrize(("who", "expected"), TABLE.values(), ids=TABLE)
def test_rights_are_those_of_role_and_scope_together(who: Actor, expected: str) -> None:
    for place, letter in zip(PLACES, expected, strict=True):
        assert [action for action in ("read", "write", "admin") if may(who, action, place)] == ALLOWED[letter], place


@pytest.mark.parametrize(("who", "expected"), TABLE.values(), ids=TABLE)
def test_the_owners_whose_private_places_one_reads_are_those_that_one_may_read(who: Actor, expected: str) -> None:
    if not who.operates:
        readable = {
            place.owner for place, letter in zip(PLACES, expected, strict=True) if place.private and letter != "-"
        }
        assert readable_owners(who) == readable
