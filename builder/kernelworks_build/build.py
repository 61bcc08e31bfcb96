"""Builds the variants of a project, from the cache where nothing changed, and lays them out as a revision."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from kernelworks.durable import replace_file
from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.decode import parse_json
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.model.variant import Variant
from kernelworks_build.cache import ResultCache
from kernelworks_build.errors import AuditError, CompileError
from kernelworks_build.job import BUILDER, Job, Project, Workplace
from kernelworks_build.matrix import Matrix
from kernelworks_build.planned import PlannedVariant
from kernelworks_build.revision import CARD, copy_variant, merge, read_revision, variant_folder

__all__ = ["Built", "build", "build_all", "require_ours", "write_dist"]

_LOCK = ".lock"
_OWN = {_LOCK, INDEX_NAME, "logs"}


@dataclass(frozen=True)
class Built:
    """One variant that was built, or found built.

    Attributes:
        variant: Its facts, as the index lists them.
        folder: Revision-shaped folder that holds its wheel and files.
        audit: The audit's report as JSON.
        cpu_seconds: What compiling took when it was compiled.
        max_rss_bytes: Peak memory of its largest process then.
        units: What each translation unit took that was compiled then, as JSON.
        units_cached: How many were compiled before.
        cached: Whether nothing had to be compiled now, or, where there is nothing to compile, to be packed.
    """

    variant: Variant
    folder: Path
    audit: Mapping[str, Any]
    cpu_seconds: float
    max_rss_bytes: int
    units: Sequence[Mapping[str, Any]]
    units_cached: int
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
            units=stats["units"],
            units_cached=stats["units-cached"],
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
    made = False

    def fill(folder: Path) -> None:
        nonlocal made
        from kernelworks_build.make import make  # noqa: PLC0415  # half of the program, and only a miss needs it

        made = make(job, workplace, folder)

    entry = ResultCache(workplace.cache / "variants", workplace.progress).get_or_make(job.key(workplace), fill)
    return Built.read(entry, cached=not made)


def build_all(project: Project, plans: Sequence[PlannedVariant], workplace: Workplace) -> list[Built]:
    """Build every variant, those after one that fails as well.

    Raises:
        CompileError, AuditError: Some fail; what is told of each, and which did not.
    """
    built: list[Built] = []
    failed: list[CompileError | AuditError] = []
    with workplace.progress.task("all variants", len(plans), "variants") as advance:
        for planned in plans:
            try:
                built.append(build(project, planned, workplace))
                workplace.progress.note(f"{planned.name}: {_cost(built[-1])}")
            except (CompileError, AuditError) as error:  # the author wants to know of all
                failed.append(error)
                workplace.progress.note(f"{planned.name}: failed")
            advance(1)
    if failed:
        raise _together(failed, [item.variant.name for item in built])
    return built


def _cost(built: Built) -> str:
    if built.cached:
        return "found in the cache"
    if not built.units and not built.units_cached:
        return "packed"
    reused = f", {built.units_cached} of {built.units_cached + len(built.units)} units from the cache"
    return f"built, {built.cpu_seconds:.1f} CPU s{reused if built.units_cached else ''}"


def _together(failed: Sequence[CompileError | AuditError], fine: Sequence[str]) -> CompileError | AuditError:
    """One error for all that failed, of the kind of the first."""
    hints = [error.hint for error in failed if error.hint]
    if fine:
        hints.append(f"without a fault, and cached: {', '.join(f'`{name}`' for name in fine)}")
    first, *others = failed
    context = {"failed": [error.to_json() for error in failed]} if others else first.context
    message = "\n\n".join(error.message.rstrip("\n") for error in failed)
    return type(first)(message, hint="; ".join(dict.fromkeys(hints)) or None, **context, built=list(fine))


def write_dist(project: Project, built: Sequence[Built], out: Path) -> Index:
    """Lay `built` out as the revision `out`, beside earlier variants that were made from the same sources.

    Of what lies in `out`, only files that an index there lists are ever replaced or removed.

    Raises:
        UsageError: `out` holds other things and no index.
    """
    general = project.manifest.general
    new = Index(
        name=general.name,
        version=general.version,
        license=general.license,
        source=project.source,
        builder=BUILDER,
        variants=tuple(sorted((item.variant for item in built), key=lambda variant: variant.name)),
    )
    require_ours(out)
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / _LOCK):
        old = _claim(out, replace(new, variants=()))
        index, _ = merge(new, old)
        for item in built:
            copy_variant(item.variant, item.folder, out)
        with suppress(FileNotFoundError):
            shutil.copyfile(project.folder / CARD, out / CARD)
        replace_file(out / INDEX_NAME, index.to_bytes())
        _remove_stale(out, old, index)
    return index


def require_ours(out: Path) -> None:
    """Return if `write_dist` may write into the folder `out`: it is missing, empty, or holds what was built before.

    Raises:
        UsageError: It holds other things and no index.
    """
    foreign = sorted(path.name for path in out.iterdir() if path.name not in _OWN) if out.is_dir() else []
    if foreign and not (out / INDEX_NAME).exists():
        raise UsageError(
            f"`{out}` is not empty, and nothing of it was built here: it holds {', '.join(foreign[:5])}",
            hint="choose another `--out`",
            folder=out,
        )


def _claim(out: Path, empty: Index) -> Index:
    """The index in `out`, where an unreadable one counts as empty; a new folder gets `empty`, which makes it ours."""
    if not (out / INDEX_NAME).exists():
        replace_file(out / INDEX_NAME, empty.to_bytes())  # from now on what lies here is known to be ours
    try:
        return read_revision(out) or empty
    except RepositoryError:
        return empty


def _remove_stale(out: Path, old: Index, new: Index) -> None:
    """Remove the wheels and folders that only `old` lists."""
    kept = {variant.wheel.path for variant in new.variants} | {variant.name for variant in new.variants}
    for variant in old.variants:
        if variant.wheel.path not in kept:
            (out / variant.wheel.path).unlink(missing_ok=True)
        if variant.name not in kept:
            shutil.rmtree(variant_folder(out, variant), ignore_errors=True)
