"""The declared files of a project: a sealed copy of them, and the state of git around them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from kernelworks.model.index import Source

__all__ = ["copy_files", "git_state", "uncommitted"]


def copy_files(folder: Path, paths: Iterable[str], target: Path) -> None:
    """Copy the files `paths` below `folder` to the same paths below `target`; contents only, no modes or times."""
    for path in paths:
        copy = target / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, copy)


def git_state(project: Path, paths: Iterable[str], digest: str) -> Source:
    """`digest` with git's commit where `build.toml` is tracked.

    `dirty` says whether one of the files `paths` differs from that commit or is not tracked.
    """
    declared = sorted(paths)
    tracked = _git(project, "ls-files", "-z", "--", *declared)
    commit = _git(project, "rev-parse", "--verify", "HEAD")
    if tracked is None or commit is None or "build.toml" not in tracked.split("\0"):
        return Source(digest)
    return Source(digest, commit.strip(), dirty=bool(uncommitted(project, declared)))


def uncommitted(project: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the files `paths` that differ from git's commit or are not tracked; none where there is no git."""
    listed = (_git(project, "ls-files", "-z", "-m", "-o", "--", *paths) or "").split("\0")
    staged = (_git(project, "diff", "--name-only", "--relative", "-z", "--cached", "--", *paths) or "").split("\0")
    return tuple(sorted({*listed, *staged} - {""}))


def _git(project: Path, *arguments: str) -> str | None:
    """What git prints, or None where there is no git or no repository."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(project), *arguments], env=env, capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
