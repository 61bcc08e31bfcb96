"""What the commands that read a project share: its options, its manifest, its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelworks.errors import UsageError
from kernelworks.settings import cache_root
from kernelworks_build.capabilities import by_backend
from kernelworks_build.errors import PlanError, PublishError
from kernelworks_build.job import Project
from kernelworks_build.manifest import MANIFEST, Manifest, read_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan
from kernelworks_build.planned import BuildPlan
from kernelworks_build.revision import read_revision
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.usage import in_use

__all__ = [
    "DIST",
    "LOCKS",
    "ArchOption",
    "ProjectArgument",
    "VariantOption",
    "folder_of_manifest",
    "open_dist",
    "open_locks",
    "open_plan",
    "plan_project",
]

DIST = "dist"
"""Folder beside build.toml with what was built."""

LOCKS = "kernel-locks"
"""Folder beside build.toml with the project's own toolchain locks."""


def folder_of_manifest(path: Path) -> Path:
    """`path`, or its folder where it is a build.toml: both name a project."""
    return path.parent if path.name == MANIFEST and not path.is_dir() else path


ProjectArgument = Annotated[
    Path,
    typer.Argument(help="The folder that holds build.toml.", metavar="PROJECT", callback=folder_of_manifest),
]
VariantOption = Annotated[
    list[str] | None,
    typer.Option("--variant", help="Only variants whose name matches; may be given again.", metavar="GLOB"),
]
ArchOption = Annotated[
    str | None,
    typer.Option(
        "--arch", help="Architectures to build for instead of the manifest's: 9.0,12.0,gfx942.", metavar="LIST"
    ),
]


def open_dist(project: Path) -> tuple[Manifest, Path]:
    """The manifest of `project`, and its `dist`, which was made from what the project holds now.

    Raises:
        ManifestError: build.toml is faulty.
        PublishError: Nothing was built, or from other sources.
    """
    manifest, dist = read_manifest(project), project / DIST
    index = read_revision(dist)
    if index is None or not index.variants:
        raise PublishError(f"`{dist}` holds nothing that was built", hint="run `kernel-build build` first", path=dist)
    with in_use(cache_root()):
        source = Project.read(project, manifest, TreeStore(cache_root() / "trees")).source
    if index.source.digest != source.digest:
        raise PublishError(
            f"`{dist}` was built from other sources than `{project}` holds now",
            hint="run `kernel-build build` again",
            expected=source.digest,
            got=index.source.digest,
        )
    return manifest, dist


def open_locks(project: Path) -> LockSet:
    """The shipped locks, and over them those of `project`."""
    own = project / LOCKS
    return LockSet.load(own if own.is_dir() else None)


def open_plan(project: Path, variants: list[str] | None, archs: str | None) -> tuple[Manifest, BuildPlan, LockSet]:
    """The manifest of `project`, the plan of the variants asked for, and the locks in force.

    Raises:
        ManifestError: build.toml is faulty.
        PlanError: Nothing would be built.
    """
    manifest = read_manifest(project)
    locks = open_locks(project)
    return manifest, plan_project(manifest, locks, archs).select(variants or ()), locks


def plan_project(manifest: Manifest, locks: LockSet, archs: str | None) -> BuildPlan:
    """The plan of `manifest` with `locks`, for the architectures `archs` (`9.0,gfx942`) where they are given.

    Raises:
        PlanError: Nothing would be built.
        UsageError: `archs` is given and names none.
    """
    requested = [name for text in archs.split(",") if (name := text.strip())] if archs is not None else None
    if requested == []:
        raise UsageError("`--arch` names no architecture", hint="name some, like `9.0,gfx942`, or leave it out")
    matrix = Matrix.load().with_torch(
        lock.artifacts[0].version for lock in locks.locks.values() if lock.recipe == "torch"
    )
    rows = {name: matrix.backends[name] for name in manifest.backends if name in matrix.backends}
    wanted = by_backend(requested, {name: row.archs for name, row in rows.items()}) if requested else None
    plan = make_plan(manifest, matrix, set(locks.locks), wanted)
    if not plan.variants:
        raise PlanError(
            "\n".join(["there is nothing to build", *plan.explained()]), skipped=[vars(item) for item in plan.skipped]
        )
    return plan
