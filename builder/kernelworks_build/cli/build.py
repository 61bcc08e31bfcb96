"""`kernel-build build`: compile, audit and pack variants into a folder that `publish` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelworks.model.variant_name import format_version
from kernelworks.settings import cache_root, shared_caches
from kernelworks_build.build import Built, build_all, require_ours, write_dist
from kernelworks_build.cli.console import (
    JsonOption,
    live_progress,
    megabytes,
    print_json,
    print_table,
)
from kernelworks_build.cli.project import DIST, ArchOption, ProjectArgument, VariantOption, open_plan
from kernelworks_build.job import Project, Workplace
from kernelworks_build.sandbox import executor
from kernelworks_build.source import uncommitted
from kernelworks_build.usage import in_use
from kernelworks_build.verdicts import NOT_CHECKED
from kernelworks_build.writable import require_writable


def command(
    project: ProjectArgument = Path(),
    *,
    variant: VariantOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the result goes; without it, PROJECT/dist.", metavar="FOLDER")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Translation units at once; memory may lower it.", metavar="N")
    ] = None,
    arch: ArchOption = None,
    unit_cache: Annotated[
        bool, typer.Option("--unit-cache/--no-unit-cache", help="Take objects that were compiled before.")
    ] = True,
    sandbox: Annotated[
        str, typer.Option("--sandbox", help="bwrap, nix, or none (not hermetic, and recorded so).", metavar="NAME")
    ] = "bwrap",
    as_json: JsonOption = False,
) -> None:
    """Build every variant of the plan. What is built already is not built again."""
    project = project.absolute()
    out = (out or project / DIST).absolute()
    manifest, plan, locks = open_plan(project, variant, arch)
    require_ours(out)
    require_writable(out)
    with live_progress() as progress, in_use(cache_root()):
        for line in plan.asked_for.explained():
            progress.note(line)
        runner, shared = executor(sandbox, locks), shared_caches()
        workplace = Workplace(cache_root(), locks, runner, progress, out / "logs", jobs, unit_cache, shared)
        source = Project.read(project, manifest, workplace.store)
        if source.source.dirty:
            progress.note(f"not committed: {', '.join(uncommitted(project, source.files))}")
        built = build_all(source, plan.variants, workplace)
        write_dist(source, built, out)
    if as_json:
        print_json({"out": str(out), "variants": [_document(item) for item in built]})
    else:
        print_table(
            f"built in {out}",
            ("variant", "archs", "size", "sha256", "CPU seconds", "audit", "libc floor"),
            (_row(item) for item in built),
        )


def _row(item: Built) -> tuple[str, ...]:
    variant = item.variant
    return (
        variant.name,
        " ".join(variant.backend.archs.spelled()) or "-",
        megabytes(variant.wheel.size),
        variant.wheel.sha256[:16],
        f"{item.cpu_seconds:.1f}" + (", cached" if item.cached else ""),
        _audit(item),
        _libc(item),
    )


def _audit(item: Built) -> str:
    """The verdict, and what it leaves open: what breaks a rule is not built."""
    unchecked = [rule["rule"] for rule in item.audit["rules"] if rule["verdict"] == NOT_CHECKED]
    doubts = {"not hermetic": not item.variant.hermetic, f"not checked: {' '.join(unchecked)}": bool(unchecked)}
    return ", ".join(["pass", *(doubt for doubt, holds in doubts.items() if holds)])


def _libc(item: Built) -> str:
    """What the wheel claims, and what the audit found that it needs."""
    claimed = item.variant.platform.glibc
    return f"glibc {format_version(claimed)} (needs {item.audit['glibc'] or 'none'})" if claimed else "-"


def _document(item: Built) -> dict[str, object]:
    return {
        "name": item.variant.name,
        "wheel": item.variant.wheel.to_json(),
        "archs": item.variant.backend.archs.to_json(),
        "glibc": {"claimed": item.variant.platform.to_json()["glibc"], "needed": item.audit["glibc"]},
        "cached": item.cached,
        "cpu-seconds": item.cpu_seconds,
        "max-rss-bytes": item.max_rss_bytes,
        "units": list(item.units),
        "units-cached": item.units_cached,
        "hermetic": item.variant.hermetic,
        "audit": item.audit,
    }
