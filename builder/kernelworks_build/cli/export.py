"""`kernel-build export`: variants as a folder that nix builds without this program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelworks.errors import UsageError
from kernelworks.settings import cache_root, shared_caches
from kernelworks_build.cli.console import JsonOption, live_progress, note, print_json
from kernelworks_build.cli.project import ArchOption, ProjectArgument, VariantOption, open_plan
from kernelworks_build.errors import PlanError
from kernelworks_build.job import Job, Project, Workplace
from kernelworks_build.make import action_of
from kernelworks_build.matrix import Matrix
from kernelworks_build.nix_export import export
from kernelworks_build.sandbox import executor
from kernelworks_build.usage import in_use
from kernelworks_build.writable import require_writable


def command(
    project: ProjectArgument = Path(),
    *,
    out: Annotated[Path, typer.Option("--out", help="Where it goes: an empty folder.", metavar="FOLDER")],
    variant: VariantOption = None,
    arch: ArchOption = None,
    artifacts: Annotated[
        bool,
        typer.Option("--artifacts/--no-artifacts", help="Add what the locks pin: nix needs no network then."),
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Write variants as a folder that nix builds. `nix-build -A kernels` there makes their libraries."""
    project, out = project.absolute(), out.absolute()
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"`{out}` is not empty", hint="name another folder by `--out`", path=out)
    manifest, plan, locks = open_plan(project, variant, arch)
    require_writable(out)
    with live_progress() as progress, in_use(cache_root()):
        workplace = Workplace(cache_root(), locks, executor("bwrap"), progress, out, shared=shared_caches())
        source = Project.read(project, manifest, workplace.store)
        jobs = [Job.of(source, planned, Matrix.load()) for planned in plan.variants]
        actions = {job.planned.name: action_of(job, job.spec, workplace) for job in jobs if job.spec}
        if not actions:
            raise PlanError("nothing is compiled for these variants", hint="`kernel-build build` makes their wheels")
        out.mkdir(parents=True, exist_ok=True)
        used = export(actions, workplace, out, artifacts=artifacts)
    if as_json:
        print_json({"out": str(out), "variants": list(actions), "locks": list(used)})
        return
    note(f"wrote {', '.join(actions)} to {out}: run `nix-build -A kernels` there")
