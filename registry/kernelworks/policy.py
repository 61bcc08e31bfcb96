"""What whoever runs this machine lets be loaded: a JSON file of rules per registry, over every consent in a call.

    {"registries": {"*": {"deny": ["mallory"]},
                    "https://kernels.example.org": {"allow": ["team", "guest/relu"], "pinned": true}}}

A registry is named by its URL or folder, `*` is any. `allow` and `deny` hold publishers (`org`), repositories
(`org/name`) or `*`. The rules of a registry are added to those of `*`. Of the entries that name a repository the most
precise decides, and of two alike the one that denies; `pinned` demands a commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.decode import Node, parse_json
from kernelworks.transport.directory import folder_of
from kernelworks.transport.url import endpoint_of, is_url

__all__ = ["NO_RULES", "Rules", "read_policy"]

_ANY = "*"
_NAME = r"\*|[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?"


@dataclass(frozen=True)
class Rules:
    """The rules for one registry.

    Attributes:
        allow: Whose code may run without consent in the call.
        deny: Whose may not, whatever the call says.
        pinned: Whether a call has to name a commit.
        origin: The file that they are from.
    """

    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()
    pinned: bool = False
    origin: str = ""

    def verdict(self, repo_id: str) -> bool | None:
        """Whether code of `repo_id` may run; None where the rules do not say."""
        for name in (repo_id, repo_id.partition("/")[0], _ANY):
            if name in self.deny:
                return False
            if name in self.allow:
                return True
        return None

    def __add__(self, other: Rules) -> Rules:
        return Rules(self.allow | other.allow, self.deny | other.deny, self.pinned or other.pinned, self.origin)


NO_RULES = Rules()


def read_policy(path: Path | None, registry: str) -> Rules:
    """The rules for `registry` (the location of a transport) in the file `path`; none without a file.

    Raises:
        UsageError: It cannot be read, or is no policy: then nothing is loaded.
    """
    if path is None:
        return NO_RULES
    try:
        root = parse_json(path.read_bytes(), f"policy `{path}`")
        listed = root.get("registries")
        known = {name: _rules(listed.get(name), str(path)) for name in listed.names()}
    except (OSError, RepositoryError) as error:
        raise UsageError(
            f"the policy cannot be read: {error}", hint="repair it, or name another by KERNELWORKS_POLICY"
        ) from error
    here = _location(registry)
    found = (rules for name, rules in known.items() if name == _ANY or _location(name) == here)
    return sum(found, Rules(origin=str(path)))


def _rules(node: Node, origin: str) -> Rules:
    node.only("allow", "deny", "pinned")
    allow, deny = (
        frozenset(found.items(_name)) if (found := node.opt(key)) else frozenset() for key in ("allow", "deny")
    )
    pinned = node.opt("pinned")
    return Rules(allow, deny, pinned is not None and pinned.flag(), origin)


def _name(node: Node) -> str:
    return node.text(pattern=_NAME)


def _location(name: str) -> str:
    """The one form of a URL or folder: no link and no detour leads around a rule."""
    return endpoint_of(name) if is_url(name) else str(folder_of(name).resolve())
