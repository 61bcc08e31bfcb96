"""Which kernels a project asks for: `[tool.kernelworks.dependencies]` of its pyproject.toml.

    [tool.kernelworks.dependencies]
    "org/relu" = 1
    "org/attention" = {version = 2, registry = "https://kernels.example.org"}
    "org/sampling" = {revision = "main"}

The table of the `kernels` package, `[tool.kernels.dependencies]`, is read too; of two entries for a kernel, ours holds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelworks.errors import LockError, RepositoryError
from kernelworks.lockfile import pinned_need
from kernelworks.model.decode import Node
from kernelworks.model.variant import KernelDependency
from kernelworks.transport.url import is_url

__all__ = ["PROJECT_NAME", "Wanted", "asks_for_kernels", "read_project"]

PROJECT_NAME = "pyproject.toml"
_TOOLS = ("kernels", "kernelworks")
"""Whose tables are read; the last prevails."""


@dataclass(frozen=True)
class Wanted:
    """A kernel that a project asks for; `registry` is where it is, or None for those that are configured."""

    need: KernelDependency
    registry: str | None = None


def asks_for_kernels(folder: Path) -> bool:
    """Whether the project in `folder` has a table of kernels.

    Raises:
        LockError: Its pyproject.toml is malformed.
    """
    path = folder / PROJECT_NAME
    return path.is_file() and bool(_tables(path))


def read_project(folder: Path) -> tuple[Wanted, ...]:
    """The kernels that the project in `folder` asks for, sorted by their ids.

    Raises:
        LockError: There is no pyproject.toml, it has no such table, or entries are malformed; it tells all of them.
    """
    path = folder / PROJECT_NAME
    if not path.is_file():
        raise LockError(f"`{folder}` has no `{PROJECT_NAME}`", hint="name the folder of a project", file=str(path))
    entries = {repo_id: table.get(repo_id) for table in _tables(path) for repo_id in table.names()}
    if not entries:
        raise LockError(
            f"`{path}` asks for no kernels",
            hint='list them in it: `[tool.kernelworks.dependencies]`, then `"org/name" = 1`',
            file=str(path),
        )
    found, faults = [], []
    for repo_id, entry in sorted(entries.items()):
        try:
            found.append(_wanted(repo_id, entry))
        except RepositoryError as error:  # noqa: PERF203  # all faults are told together
            faults.append(error.message)
    if faults:
        raise LockError("\n".join(faults), hint='write `"org/name" = 1`, or `{revision = "..."}`', file=str(path))
    return tuple(found)


def _tables(path: Path) -> list[Node]:
    """The tables of kernels in the file `path`, ours last."""
    root = _parsed(path)
    found = []
    try:
        for name in _TOOLS:
            table: Node | None = root
            for key in ("tool", name, "dependencies"):
                table = table.opt(key) if table else None
            if table and table.names():
                found.append(table)
    except RepositoryError as error:
        raise LockError(error.message, file=str(path), **error.context) from error
    return found


def _wanted(repo_id: str, entry: Node) -> Wanted:
    if not isinstance(entry.value, dict):
        entry = Node({"version": entry.value}, entry.origin, entry.path)
    registry = entry.only("version", "revision", "registry").opt("registry")
    if registry and not is_url(registry.text()) and not Path(registry.text()).is_absolute():
        raise registry.fault(f"is `{registry.value}`, neither a URL nor the full path of a folder")
    need = pinned_need(entry, Node(repo_id, entry.origin, entry.path))
    return Wanted(need, registry.text() if registry else None)


def _parsed(path: Path) -> Node:
    try:
        return Node(_toml(path.read_text(encoding="utf-8")), f"`{path}`", "")
    except (OSError, ValueError) as error:
        raise LockError(f"`{path}` cannot be read: {error}", file=str(path)) from error


def _toml(text: str) -> dict[str, Any]:
    try:
        if sys.version_info >= (3, 11):
            import tomllib  # noqa: PLC0415  # whoever loads kernels needs no TOML
        else:
            import tomli as tomllib  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise LockError(
            f"Python 3.10 cannot read `{PROJECT_NAME}`", hint="install the package `tomli`, or use a newer Python"
        ) from error
    document: dict[str, Any] = tomllib.loads(text)
    return document
