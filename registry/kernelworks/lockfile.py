"""Lock files: which commit stands for each kernel of a project, and the digest of every variant at that commit.

`kernelworks.lock` is ours. `kernels.lock`, of the `kernels` package, is read in both of its forms; it names commits.
The hashes in its older form are made of how a repository stored its files: they are passed over, and the commit holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kernelworks.errors import LockError, RepositoryError, UsageError
from kernelworks.model.decode import Node, parse_json
from kernelworks.model.variant import KernelDependency
from kernelworks.transport.repo_id import COMMIT_PATTERN, check_commit_or_ref, check_repo_id

__all__ = [
    "LOCK_NAME",
    "LOCK_NAMES",
    "Lock",
    "Pin",
    "find_lock",
    "parse_lock",
    "pinned_need",
    "process_lock",
    "read_lock",
    "spelled",
]

LOCK_NAME = "kernelworks.lock"
LOCK_NAMES = (LOCK_NAME, "kernels.lock")
"""The preferred first."""

_SCHEMA = 1
_RELOCK = "`kernelworks lock` writes it from pyproject.toml"


@dataclass(frozen=True)
class Pin:
    """What stands for one kernel.

    Attributes:
        need: What it stands for; older lock files tell neither a version nor a revision.
        commit: 40 or 64 hex digits.
        registry: Where it is, or None for the registries that are configured.
        variants: Name -> SHA-256 of the wheel (or of the files, where there is none); empty where nothing is told.
        direct: Whether the project asks for it, not only another kernel.
    """

    need: KernelDependency
    commit: str
    registry: str | None = None
    variants: Mapping[str, str] = field(default_factory=dict)
    direct: bool = True

    def to_json(self) -> dict[str, Any]:
        registry = {"registry": self.registry} if self.registry else {}
        facts = {"commit": self.commit, "direct": self.direct, "variants": dict(self.variants)}
        return {**self.need.to_json(), **facts, **registry}


@dataclass(frozen=True, eq=False)
class Lock:
    """The pins of a lock file; `origin` names it in messages."""

    origin: str
    pins: tuple[Pin, ...]

    def get(self, need: KernelDependency) -> Pin | None:
        """What stands for `need`; without a version and a revision, what the project itself asks for is preferred."""
        same = [pin for pin in self.pins if pin.need.repo_id == need.repo_id]
        if need.version is None and need.revision is None:
            return min(same, key=lambda pin: not pin.direct, default=None)
        return next((pin for pin in same if pin.need == need), None)

    def find(self, need: KernelDependency) -> Pin:
        """As `get`.

        Raises:
            LockError: Nothing stands for it.
        """
        if (pin := self.get(need)) is not None:
            return pin
        locked = [spelled(pin.need) for pin in self.pins if pin.need.repo_id == need.repo_id]
        there = f" (it has {', '.join(locked)})" if locked else ""
        raise LockError(
            f"lock file `{self.origin}` has no {spelled(need)}{there}",
            hint="add it to `[tool.kernelworks.dependencies]` in pyproject.toml, and run `kernelworks lock`",
            repo_id=need.repo_id,
            lockfile=self.origin,
        )

    def to_bytes(self) -> bytes:
        """The document: sorted, two blanks of indent, a newline at the end; equal pins give equal bytes."""
        document = {"schema": _SCHEMA, "kernels": [pin.to_json() for pin in sorted(self.pins, key=_order)]}
        return json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"


def _order(pin: Pin) -> tuple[str, int, str]:
    need = pin.need
    return need.repo_id, -1 if need.version is None else need.version, need.revision or ""


def spelled(need: KernelDependency) -> str:
    """`need` as messages name it."""
    version = f" version {need.version}" if need.version is not None else ""
    return f"`{need.repo_id}`{version}" + (f" revision `{need.revision}`" if need.revision else "")


def find_lock(place: Path) -> Path:
    """The lock file at `place`: that file, or the one in that folder.

    Raises:
        LockError: There is none.
    """
    found = [place, *(place / name for name in LOCK_NAMES)]
    for path in found:
        if path.is_file():
            return path
    raise LockError(
        f"`{place}` is no lock file and holds neither {' nor '.join(f'`{name}`' for name in LOCK_NAMES)}",
        hint=_RELOCK,
        file=str(place),
    )


def read_lock(path: Path) -> Lock:
    """The lock in the file `path`.

    Raises:
        LockError: It cannot be read, or is malformed.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"lock file `{path}` cannot be read: {error.strerror or error}"
        raise LockError(message, hint=_RELOCK, file=str(path)) from error
    return parse_lock(data, str(path))


@cache
def process_lock(place: Path) -> Lock:
    """The lock at `place` (see `find_lock`) as this process has read it first, for it keeps to that.

    Raises:
        LockError: As `find_lock` and `read_lock`.
    """
    return read_lock(find_lock(place))


def parse_lock(data: bytes, origin: str) -> Lock:
    """The lock in `data`; `origin` names it in messages.

    Raises:
        LockError: It is malformed: an unknown key, a kernel given twice; it says where.
    """
    try:
        root = parse_json(data, f"lock file `{origin}`")
        pins = _pins(root) if isinstance(root.value, dict) else root.items(_anchor_pin)
        needs = [pin.need for pin in pins]
        if twice := [need for position, need in enumerate(needs) if need in needs[:position]]:
            raise root.fault(f"locks {spelled(twice[0])} twice")
    except RepositoryError as error:
        raise LockError(error.message, hint=error.hint or _RELOCK, **error.context) from error
    return Lock(origin, pins)


def pinned_need(node: Node, repo_id: Node) -> KernelDependency:
    """What `node`, with exactly one of `version` and `revision`, asks for of `repo_id`.

    Raises:
        RepositoryError: It is malformed.
    """
    _checked(repo_id, check_repo_id, "repository id (`org/name`)")
    need = KernelDependency.from_json(Node({**node.value, "repo-id": repo_id.value}, node.origin, node.path))
    if need.revision is not None:
        _checked(node.get("revision"), check_commit_or_ref, "commit or ref")
    return need


def _checked(node: Node, check: Callable[[str], str], what: str) -> str:
    try:
        check(node.text())
    except UsageError as error:
        raise node.fault(f"is `{node.value}`, not a {what}") from error
    return node.text()


def _pins(root: Node) -> tuple[Pin, ...]:
    schema = root.get("schema")
    if schema.natural() != _SCHEMA:
        raise schema.fault(f"is {schema.value}, and this version reads schema {_SCHEMA}; upgrade kernelworks")
    return root.only("schema", "kernels").get("kernels").items(_pin)


def _pin(node: Node) -> Pin:
    node.only("repo-id", "version", "revision", "commit", "direct", "registry", "variants")
    registry, variants = node.opt("registry"), node.get("variants")
    return Pin(
        pinned_need(node, node.get("repo-id")),
        node.get("commit").text(pattern=COMMIT_PATTERN),
        registry.text() if registry else None,
        {name: variants.get(name).sha256() for name in variants.names()},
        node.get("direct").flag(),
    )


def _anchor_pin(node: Node) -> Pin:
    """An entry of `kernels.lock`, in its present form or in the older one."""
    if node.opt("repo_id") is not None:
        node.only("repo_id", "sha", "variants")
        repo_id = _checked(node.get("repo_id"), check_repo_id, "repository id (`org/name`)")
        return Pin(KernelDependency(repo_id), node.get("sha").text(pattern=COMMIT_PATTERN))
    wanted = node.only("dependency", "lock").get("dependency").only("repo-id", "version", "revision")
    commit = node.get("lock").only("commit").get("commit")
    return Pin(pinned_need(wanted, wanted.get("repo-id")), commit.text(pattern=COMMIT_PATTERN))
