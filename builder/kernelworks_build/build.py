"""Builds the variants of a project, from the cache where nothing changed, and lays them out as a revision."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelworks._version import __version__
from kernelworks.model.decode import parse_json
from kernelworks.model.digest import FileEntry, canonical_json, hash_bytes, hash_file, tree_digest
from kernelworks.model.index import INDEX_NAME, Index, Source
from kernelworks.model.variant import Variant
from kernelworks_build import resources
from kernelworks_build.action import Executor
from kernelworks_build.cache import ActionCache
from kernelworks_build.claims import Claims
from kernelworks_build.compile import CompileSpec, build_id, compile_spec
from kernelworks_build.manifest import Manifest, source_files
from kernelworks_build.matrix import BackendRow, Matrix
from kernelworks_build.plan import PlannedVariant
from kernelworks_build.progress import Progress
from kernelworks_build.revision import CARD, copy_variant, merge, read_revision
from kernelworks_build.source import read_source
from kernelworks_build.toolchain.lock import LockSet

__all__ = ["BUILDER", "Built", "Job", "Project", "Workplace", "build", "write_dist"]

BUILDER = f"kernel-build {__version__}"


@dataclass(frozen=True)
class Project:
    """What is built.

    Attributes:
        folder: The author's folder.
        manifest: Its manifest.
        files: The declared files, relative to the folder: all that a build can see.
        source: Their digest and the state of git.
    """

    folder: Path
    manifest: Manifest
    files: tuple[str, ...]
    source: Source

    @classmethod
    def read(cls, folder: Path, manifest: Manifest) -> Project:
        """The project in `folder` as it is now."""
        files = source_files(manifest, folder)
        return cls(folder, manifest, files, read_source(folder, files))


@dataclass(frozen=True)
class Workplace:
    """Where and with what is built.

    Attributes:
        cache: Folder of downloads, toolchains and results.
        locks: The toolchains.
        executor: The sandbox.
        progress: Who listens.
        logs: Folder for the logs of compiles that fail.
        jobs: Translation units at once, or None: as many as cores and memory allow.
    """

    cache: Path
    locks: LockSet
    executor: Executor
    progress: Progress
    logs: Path
    jobs: int | None = None


@dataclass(frozen=True)
class Job:
    """One variant of a project, lowered: everything that is known before anything runs."""

    project: Project
    planned: PlannedVariant
    row: BackendRow
    claims: Claims
    spec: CompileSpec
    wheel_tag: str

    @classmethod
    def of(cls, project: Project, planned: PlannedVariant, matrix: Matrix) -> Job:
        """The job that makes `planned`."""
        package, backend = project.manifest.python_name, planned.backend.kind
        ident = build_id(package, backend, planned.name, project.source.digest)
        row = matrix.backends[backend]
        claims = Claims(
            name=planned.name,
            id=ident,
            package=package,
            framework=planned.framework,
            backend=planned.backend,
            python_abi=planned.python_abi,
            platform=planned.platform,
            torch_releases=planned.torch_releases,
        )
        return cls(
            project,
            planned,
            row,
            claims,
            compile_spec(project.manifest, planned, row, ident),
            matrix.wheel_tag,
        )

    def key(self, workplace: Workplace) -> str:
        """Digest of everything that decides the bytes of the wheel."""
        return hash_bytes(
            canonical_json(
                {
                    "builder": _own_digest(),
                    "claims": self.claims.to_json(),
                    "executor": workplace.executor.name,
                    "locks": workplace.locks.digests(self.planned.trees),
                    "source": self.project.source.to_json(),
                    "spec": hash_bytes(self.spec.to_bytes()),
                }
            )
        )


@dataclass(frozen=True)
class Built:
    """One variant that was built, or found built.

    Attributes:
        variant: Its facts, as the index lists them.
        folder: Revision-shaped folder that holds its wheel and files.
        audit: The audit's report as JSON.
        cpu_seconds: What compiling took when it was compiled.
        max_rss_bytes: Peak memory of its largest process then.
        cached: Whether nothing had to be compiled now.
    """

    variant: Variant
    folder: Path
    audit: Mapping[str, Any]
    cpu_seconds: float
    max_rss_bytes: int
    cached: bool

    @classmethod
    def read(cls, folder: Path, *, cached: bool) -> Built:
        """What `make` left in `folder`."""
        stats = json.loads((folder / "stats.json").read_bytes())
        return cls(
            variant=Variant.from_json(parse_json((folder / "variant.json").read_bytes(), f"`{folder}`")),
            folder=folder,
            audit=json.loads((folder / "audit.json").read_bytes()),
            cpu_seconds=stats["cpu-seconds"],
            max_rss_bytes=stats["max-rss-bytes"],
            cached=cached,
        )


def build(project: Project, planned: PlannedVariant, workplace: Workplace) -> Built:
    """Build one variant, or take it from the cache.

    Raises:
        ToolchainError: An artifact cannot be had.
        SandboxError: The sandbox does not work here.
        CompileError: A source does not compile; its log is in `workplace.logs`.
        AuditError: The result breaks a rule.
    """
    job = Job.of(project, planned, Matrix.load())
    key = job.key(workplace)
    results = ActionCache(workplace.cache / "actions")
    if entry := results.get(key):
        return Built.read(entry, cached=True)
    from kernelworks_build.make import make  # noqa: PLC0415  # half of the program, and only a miss needs it

    return Built.read(results.put(key, lambda folder: make(job, workplace, folder)), cached=False)


def write_dist(project: Project, built: Sequence[Built], out: Path) -> Index:
    """Lay `built` out as the revision `out`, beside earlier variants that were made from the same sources."""
    general = project.manifest.general
    new = Index(
        name=general.name,
        version=general.version,
        license=general.license,
        source=project.source,
        builder=BUILDER,
        variants=tuple(sorted((item.variant for item in built), key=lambda variant: variant.name)),
    )
    index, _ = merge(new, read_revision(out))
    out.mkdir(parents=True, exist_ok=True)
    (out / INDEX_NAME).unlink(missing_ok=True)  # while files change, no index speaks of them
    kept = {out / variant.wheel.path for variant in index.variants}
    kept |= {out / "build" / variant.name for variant in index.variants}
    for stale in {*out.glob("build/*"), *out.glob("wheels/*")} - kept:
        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
    for item in built:
        copy_variant(item.variant, item.folder, out)
    if (project.folder / CARD).is_file():
        shutil.copyfile(project.folder / CARD, out / CARD)
    (out / INDEX_NAME).write_bytes(index.to_bytes())
    return index


def _own_digest() -> str:
    """Digest of the program itself, so that a changed builder never serves what another one made."""
    root = Path(__file__).parent
    own = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.suffix in {".py", ".toml", ".h"}}
    own[resources.CMAKE_LISTS.name] = resources.CMAKE_LISTS
    return tree_digest(FileEntry(name, *hash_file(path)) for name, path in own.items())
