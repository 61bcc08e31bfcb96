"""Who may do what: pure decisions from an actor and a place, as an answer or as a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from kernelworks_server.errors import BadRequest, Forbidden, SignInRequired

__all__ = [
    "ANONYMOUS",
    "MACHINE",
    "RANKS",
    "Action",
    "Actor",
    "Place",
    "Role",
    "check_role",
    "may",
    "readable_owners",
    "require",
]

Action = Literal["read", "write", "admin"]
Role = Literal["read", "write", "admin"]

RANKS: Mapping[str, int] = {"none": 0, "read": 1, "write": 2, "admin": 3}
"""Scopes of tokens, roles of members and actions are one ladder."""


class Place(Protocol):
    """What a right is about: a repository, or one that is still to be made."""

    @property
    def owner(self) -> str: ...
    @property
    def private(self) -> bool: ...


@dataclass(frozen=True)
class Actor:
    """Who asks, and what the token that they show lets them do.

    Attributes:
        name: The user, or None for an anonymous asker.
        scope: The most that the token allows: `none`, `read`, `write` or `admin`.
        roles: What the user is in each organisation.
        bound_to: The one owner that the token is for, or None for all of the user's.
        operator: Whether the user runs this registry; counts with a token of scope `admin` that is not bound.
    """

    name: str | None
    scope: str = "none"
    roles: Mapping[str, str] = field(default_factory=dict)
    bound_to: str | None = None
    operator: bool = False

    @property
    def operates(self) -> bool:
        """Whether this token has every right on this registry."""
        return self.operator and self.scope == "admin" and self.bound_to is None


ANONYMOUS = Actor(name=None)
MACHINE = Actor(name=None, scope="admin", operator=True)
"""Who has a shell where the registry lies: no user, and every right."""


def check_role(role: str) -> None:
    """Nothing, if `role` is a role or scope that something can have.

    Raises:
        BadRequest: There is none such.
    """
    known = [name for name, rank in RANKS.items() if rank]
    if role not in known:
        raise BadRequest(f"`{role[:40]}` is not one of {', '.join(known)}", role=role)


def may(actor: Actor, action: Action, place: Place) -> bool:
    """Whether `actor` may do `action` at `place`.

    Everybody reads what is public. Beyond that, both the role at the owner and the scope of the token must reach
    the action; but a token of scope `write` deletes and manages what its user administers, as on the Hub.
    """
    if (action == "read" and not place.private) or actor.operates:
        return True
    if actor.name is None or actor.bound_to not in {None, place.owner}:
        return False
    role = "admin" if place.owner == actor.name else actor.roles.get(place.owner, "none")
    needed = RANKS[action]
    return RANKS[role] >= needed and RANKS[actor.scope] >= min(needed, RANKS["write"])


def require(actor: Actor, action: Action, place: Place, doing: str) -> None:
    """Nothing, if `actor` may do `action` at `place`.

    Args:
        actor: Who asks.
        action: What it takes.
        place: Where.
        doing: What is being done, for the words of the refusal: `delete this`.

    Raises:
        SignInRequired: Nobody says who asks.
        Forbidden: `actor` may not.
    """
    if may(actor, action, place):
        return
    if actor.name is None:
        raise SignInRequired(f"to {doing}, show a token")
    raise Forbidden(f"`{actor.name}` may not {doing}, at least not with this token")


def readable_owners(actor: Actor) -> frozenset[str]:
    """The owners whose private repositories `actor` may read; an operator reads those of all others too."""
    if actor.name is None:
        return frozenset()
    owners = {actor.name, *actor.roles}
    return frozenset(owner for owner in owners if may(actor, "read", _Private(owner)))


@dataclass(frozen=True)
class _Private:
    owner: str
    private: bool = True
