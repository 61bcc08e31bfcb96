"""Commands about users, organisations and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated

import typer

from kernelworks_server.cli.command import Said, group, on_registry
from kernelworks_server.services import Services

__all__ = ["commands"]

_TIMES = ("created", "expires", "revoked")

commands = group()
user = group("People.")
org = group("Organisations and their members.")
token = group("Tokens: what programs show to speak for a user.")
for _name, _commands in (("user", user), ("org", org), ("token", token)):
    commands.add_typer(_commands, name=_name)


@user.command("add")
@on_registry
def add_user(
    registry: Services,
    name: str,
    fullname: Annotated[str, typer.Option(help="what pages call the user")] = "",
    *,
    operator: Annotated[bool, typer.Option("--operator", help="may do everything on this registry")] = False,
) -> Said:
    """Add a user."""
    registry.people.create_user(name, fullname=fullname, operator=operator)
    return Said({"user": name, "operator": operator}, f"added the user `{name}`")


@user.command("list")
@on_registry
def list_users(registry: Services) -> Said:
    """Tell who there is."""
    return _accounts(registry, "user")


@org.command("add")
@on_registry
def add_org(
    registry: Services,
    name: str,
    fullname: Annotated[str, typer.Option(help="what pages call the organisation")] = "",
) -> Said:
    """Add an organisation."""
    registry.people.create_org(name, fullname=fullname)
    return Said({"org": name}, f"added the organisation `{name}`")


@org.command("list")
@on_registry
def list_orgs(registry: Services) -> Said:
    """Tell which organisations there are."""
    return _accounts(registry, "org")


def _accounts(registry: Services, kind: str) -> Said:
    found = registry.people.accounts(kind)
    lines = (
        f"{account.name}{' (operator)' if account.operator else ''}{' (trusted)' if account.trusted else ''}"
        for account in found
    )
    shown = [{"name": account.name, "operator": account.operator, "trusted": account.trusted} for account in found]
    return Said({f"{kind}s": shown}, "\n".join(lines))


@org.command("members")
@on_registry
def list_members(registry: Services, org: str) -> Said:
    """Tell who is a member, and in which role."""
    members = registry.people.members(org)
    return Said({"org": org, "members": members}, "\n".join(f"{name} {role}" for name, role in members.items()))


@org.command("member")
@on_registry
def set_member(
    registry: Services,
    org: str,
    user: str,
    role: Annotated[str, typer.Option(help="read, write, admin, or none to end the membership")] = "write",
) -> Said:
    """Let a user be a member of an organisation."""
    if role == "none":
        registry.people.remove_member(org, user)
    else:
        registry.people.add_member(org, user, role)
    return Said({"org": org, "user": user, "role": role}, f"`{user}` has the role `{role}` in `{org}`")


@token.command("create")
@on_registry
def create_token(
    registry: Services,
    user: str,
    label: Annotated[str, typer.Option(help="what the user knows the token by")],
    scope: Annotated[str, typer.Option(help="read, write or admin")] = "read",
    org: Annotated[str | None, typer.Option(help="the one organisation that it is for")] = None,
    days: Annotated[int | None, typer.Option(help="how long it works", min=1)] = None,
) -> Said:
    """Make a token and tell it, this once."""
    lifetime = None if days is None else timedelta(days=days)
    made = registry.people.create_token(user, label=label, scope=scope, org=org, lifetime=lifetime)
    return Said({"user": user, "label": label, "token": made}, made)


@token.command("list")
@on_registry
def list_tokens(registry: Services, user: str) -> Said:
    """Tell which tokens a user has, revoked ones too; none can be shown again."""
    found = registry.people.tokens(user)
    shown = [asdict(each) | {name: _time(getattr(each, name)) for name in _TIMES} for each in found]
    return Said({"user": user, "tokens": shown}, "\n".join(map(_token_line, shown)))


def _token_line(shown: Mapping[str, str | None]) -> str:
    told = (f"{name} {shown[name]}" for name in ("org", *_TIMES) if shown[name])
    return ", ".join([f"{shown['label']}: {shown['scope']}", *told])


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


@token.command("revoke")
@on_registry
def revoke_token(registry: Services, user: str, label: str) -> Said:
    """Let a token work no more, at once."""
    registry.people.revoke(user, label)
    return Said({"user": user, "label": label}, f"revoked the token `{label}` of `{user}`")


@commands.command()
@on_registry
def trust(
    registry: Services,
    org: str,
    *,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="trust it no longer")] = False,
) -> Said:
    """Let clients load the kernels of an organisation without being told to trust them."""
    registry.people.set_trusted(org, not withdraw)
    text = f"`{org}` is {'no longer ' if withdraw else ''}a trusted publisher of kernels"
    return Said({"org": org, "trusted": not withdraw}, text)
