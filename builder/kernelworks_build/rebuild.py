"""Builds a wheel again from what it records of its own making, and says whether every byte is the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kernelworks.model.digest import FileEntry, hash_file, list_tree
from kernelworks_build.difference import Comparison, compare
from kernelworks_build.errors import ManifestError, RebuildError
from kernelworks_build.job import BUILDER, Job, Project, Workplace
from kernelworks_build.make import make
from kernelworks_build.manifest import MANIFEST, read_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.planned import PlannedVariant
from kernelworks_build.record import Record
from kernelworks_build.scratch import scratch
from kernelworks_build.toolchain.store import TreeStore

__all__ = ["check_out", "open_sources", "rebuild", "require_equal"]

_SHARED = ("artifacts", "trees")  # of the cache: what nobody made out of these sources
_SHOWN = 10
_GIT = {"GIT_ALLOW_PROTOCOL": "git:http:https:ssh", "GIT_TERMINAL_PROMPT": "0"}


def open_sources(record: Record, folder: Path, store: TreeStore) -> Project:
    """The project in `folder`, which holds exactly the files that `record` was made of.

    Raises:
        ManifestError: build.toml is faulty.
        RebuildError: The files differ; lists which.
    """
    project = Project.read(folder, read_manifest(folder), store)
    if project.source.digest != record.source:
        differing = list(_differing(record, list_tree(project.tree.path)))
        words = "".join(f"\n  {line}" for line in differing[:_SHOWN])
        more = f"\n  and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
        raise RebuildError(
            f"`{folder}` does not hold the sources of `{record.wheel.name}`:{words}{more}"
            if differing
            else f"`{folder}` does not hold the sources of `{record.wheel.name}`, which does not list their files",
            hint="name the folder that it was built from by `--source`",
            expected=record.source,
            got=project.source.digest,
            files=differing,
        )
    return project


def rebuild(record: Record, project: Project, planned: PlannedVariant, workplace: Workplace, out: Path) -> Path:
    """The wheel of `planned` in the folder `out`, made anew: nothing is taken from earlier results.

    What it must load with is taken from the record: torch releases that were locked since change no wheel.

    Raises:
        ToolchainError, SandboxError, CompileError, AuditError: As for every build.
    """
    with scratch(workplace.cache / "work") as apart:
        for name in _SHARED:
            (workplace.cache / name).mkdir(parents=True, exist_ok=True)
            (apart / name).symlink_to(workplace.cache / name)
        made = apart / "made"
        made.mkdir()
        job = Job.of(project, replace(planned, torch_releases=record.claims.torch_releases), Matrix.load())
        make(job, replace(workplace, cache=apart, unit_cache=False), made)
        (wheel,) = (made / "wheels").iterdir()
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(wheel, out / wheel.name))


def require_equal(record: Record, wheel: Path) -> None:
    """Return where `wheel` is byte for byte the recorded one.

    Raises:
        RebuildError: It is not; says where the first difference is.
    """
    found = compare(record.wheel, wheel)
    if found is None and record.wheel.name == wheel.name:
        return
    other = record.builder != BUILDER
    raise RebuildError(
        _words(record.wheel, wheel, found),
        hint=f"it was built by `{record.builder}`, and this is `{BUILDER}`: rebuild with that one" if other else None,
        expected=hash_file(record.wheel)[1],
        got=hash_file(wheel)[1],
        builders=[record.builder, BUILDER],
        difference=found.to_json() if found else None,
    )


def _words(expected: Path, got: Path, found: Comparison | None) -> str:
    if found is None:
        return f"the bytes are the same, but `{expected.name}` should be called `{got.name}`"
    count = f"{len(found.members)} of its members differ" if found.members else "its members are the same"
    shown = "".join(f"\n  {line}" for line in found.shown)
    return f"`{expected.name}` was not made again: {count}; first: {', '.join(found.place)}{shown}"


def check_out(record: Record, into: Path) -> Path:
    """The folder of the kernel in a checkout of the recorded commit, below the empty folder `into`.

    Raises:
        RebuildError: No commit is recorded, git cannot have it, or it holds no such kernel.
    """
    origin = record.origin
    if origin is None:
        raise RebuildError(
            f"`{record.wheel.name}` does not say where its sources are",
            hint="name their folder by `--source`; without it, `general.source` of the manifest must have named the"
            " repository, and the index beside the wheel the commit",
            wheel=record.wheel,
        )
    _git("clone", "--quiet", "--no-checkout", "--", origin.url.removeprefix("git+"), str(into))
    _git("-C", str(into), "checkout", "--quiet", "--detach", origin.commit)
    kernels = [path.parent for path in sorted(into.rglob(MANIFEST)) if _is_kernel(path.parent, record)]
    if not kernels:
        raise RebuildError(
            f"commit {origin.commit} of `{origin.url}` holds no kernel `{record.claims.package}`",
            hint="name the folder of the sources by `--source`",
            commit=origin.commit,
            url=origin.url,
        )
    return kernels[0]


def _is_kernel(folder: Path, record: Record) -> bool:
    try:
        return read_manifest(folder).python_name == record.claims.package
    except ManifestError:
        return False


def _git(*arguments: str) -> None:
    try:
        subprocess.run(["git", *arguments], env={**os.environ, **_GIT}, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise RebuildError("git is not installed", hint="name the folder of the sources by `--source`") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().rpartition("\n")[2]
        raise RebuildError(
            f"git gives no sources: {said}", hint="name their folder by `--source`", command=error.cmd
        ) from error


def _differing(record: Record, found: Sequence[FileEntry]) -> Iterator[str]:
    """Each file that is not as recorded, in words; none where the record lists no files."""
    old, new = ({entry.path: entry for entry in entries} for entries in (record.files, found))
    for path in sorted(old.keys() | new.keys()) if old else ():
        if path not in new:
            yield f"`{path}` is missing"
        elif path not in old:
            yield f"`{path}` is new"
        elif old[path] != new[path]:
            yield f"`{path}` differs"
