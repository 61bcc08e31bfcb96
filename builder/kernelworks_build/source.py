"""The declared files of a project: their digest, a staged copy of them, and the state of git around them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from kernelworks.model.digest import FileEntry, hash_file, tree_digest
from kernelworks.model.index import Source

__all__ = ["read_source", "stage"]


def read_source(project: Path, paths: Iterable[str]) -> Source:
    """Digest of the files `paths` below `project`, with git's commit where `build.toml` is tracked.

    `dirty` says whether a tracked file of the project differs from that commit, or a declared one is not tracked.
    """
    declared = sorted(paths)
    digest = tree_digest(FileEntry(path, *hash_file(project / path)) for path in declared)
    tracked = _git(project, "ls-files", "-z", "--", *declared)
    if tracked is None or "build.toml" not in tracked.split("\0"):
        return Source(digest)
    commit = _git(project, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return Source(digest)
    status = _git(project, "status", "--porcelain", "--", *declared)
    return Source(digest, commit.strip(), dirty=bool(status))


def stage(project: Path, paths: Iterable[str], target: Path) -> None:
    """Copy the files `paths` below `project` into `target`; nothing else of the project is visible to a build."""
    for path in paths:
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(project / path, copy)


def _git(project: Path, *arguments: str) -> str | None:
    """What git prints, or None where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(project), *arguments], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
