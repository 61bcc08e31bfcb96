"""Writes variants as a folder that nix builds without this program: actions, trees, locks, and what unpacks them.

The folder is laid out as a checkout is (`nix/`, `builder/`, `registry/`), so the same expressions evaluate in both.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import kernelworks
import kernelworks_build
from kernelworks_build import resources
from kernelworks_build.action import Action, Tree
from kernelworks_build.job import Workplace
from kernelworks_build.sandbox.nix_store import DRIVER, describe
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.mirror import push
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.recipes import layout, needs
from kernelworks_build.trees import locked_tree, make_trees

__all__ = ["export"]

_PACKAGES = {"registry": kernelworks, "builder": kernelworks_build}


def export(actions: Mapping[str, Action], workplace: Workplace, folder: Path, *, artifacts: bool) -> tuple[str, ...]:
    """The names of the locks that `actions`, by variant, are made with; all is written into the empty `folder`.

    With `artifacts`, what the locks pin is in `folder/mirror`.

    Raises:
        ToolchainError: What nix starts with, or an artifact, cannot be had.
    """
    names = _locked(actions.values(), workplace.locks)
    _copy(resources.NIX, folder / "nix")
    _copy(resources.NIX / "exported", folder)
    for place, package in _PACKAGES.items():
        _copy(Path(package.__path__[0]), folder / place / package.__name__)
    _seed(workplace, folder / "busybox")
    _write(folder / "actions", {f"{variant}.json": describe(action) for variant, action in actions.items()})
    _write(folder / "locks", {f"{name}.toml": workplace.locks[name].dump() for name in names})
    own = {tree for action in actions.values() for tree in _unlocked(action, workplace.locks)}
    for tree in own:
        shutil.copytree(tree.path, folder / "trees" / tree.digest, symlinks=True)
    if artifacts:
        fetcher = Fetcher(workplace.cache, Origins(), workplace.progress, shared=workplace.shared)
        push([workplace.locks[name] for name in names], str(folder / "mirror"), fetcher)
    return names


def _locked(actions: Iterable[Action], locks: LockSet) -> tuple[str, ...]:
    """Names of the locks of the trees of `actions`, of those that they need, and of what nix starts with."""
    digests = {mount.tree.digest for action in actions for mount in action.mounts}
    found = {DRIVER}
    wanted = {name for name, lock in locks.locks.items() if lock.digest in digests}
    while wanted:
        found |= wanted
        wanted = {other for name in wanted for other in needs(locks[name].recipe, locks[name].version)} - found
    return tuple(sorted(found))


def _unlocked(action: Action, locks: LockSet) -> Iterable[Tree]:
    digests = {lock.digest for lock in locks.locks.values()}
    return (mount.tree for mount in action.mounts if mount.tree.digest not in digests)


def _seed(workplace: Workplace, folder: Path) -> None:
    make_trees([DRIVER], workplace)
    seed = layout(workplace.locks[DRIVER].recipe).seed
    (folder / seed).parent.mkdir(parents=True)
    shutil.copy(locked_tree(DRIVER, workplace).path / seed, folder / seed)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
