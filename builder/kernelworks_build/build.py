"""Builds the variants of a project, from the cache where nothing changed, and lays them out as a revision."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelworks.model.decode import parse_json
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.model.variant import Variant
from kernelworks_build.cache import ActionCache
from kernelworks_build.job import BUILDER, Job, Project, Workplace
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import PlannedVariant
from kernelworks_build.revision import CARD, copy_variant, merge, read_revision

__all__ = ["Built", "build", "write_dist"]


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
