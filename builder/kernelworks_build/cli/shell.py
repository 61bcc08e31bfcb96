"""`kernel-build shell`: the sandbox of a variant, for a person and for an editor."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kernelworks.durable import replace_file
from kernelworks.settings import cache_root, shared_caches
from kernelworks_build.cli.console import JsonOption, live_progress, note, print_json
from kernelworks_build.cli.passing import passing_on
from kernelworks_build.cli.project import ArchOption, ProjectArgument, VariantOption, open_plan
from kernelworks_build.editor import compile_commands
from kernelworks_build.errors import PlanError
from kernelworks_build.job import Job, Project, Workplace
from kernelworks_build.make import action_of, make_toolchain
from kernelworks_build.matrix import Matrix
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.scratch import scratch
from kernelworks_build.usage import in_use

_DATABASE = "compile_commands.json"
_SCRIPT = "compile.sh"

Form = passing_on("COMMAND")


def command(
    context: typer.Context,
    project: ProjectArgument = Path(),
    *,
    variant: VariantOption = None,
    arch: ArchOption = None,
    database: Annotated[
        bool, typer.Option("--compile-commands", help=f"Write PROJECT/{_DATABASE} for editors, and start nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a shell, or what follows `--`, where a variant is compiled.

    It has the same compilers, files and folders: the sources are in /src, and `sh compile.sh` in /build compiles them.
    What is written is gone afterwards.
    """
    project = project.absolute()
    manifest, plan, locks = open_plan(project, variant, arch)
    with in_use(cache_root()):
        with live_progress() as progress:
            workplace = Workplace(cache_root(), locks, Bwrap(), progress, project, shared=shared_caches())
            job = Job.of(Project.read(project, manifest, workplace.store), plan.variants[0], Matrix.load())
            if job.spec is None:
                raise PlanError(f"nothing is compiled for `{job.planned.name}`", variant=job.planned.name)
            action = action_of(job, job.spec, workplace)
            make_toolchain(job, workplace)
        note(f"variant {job.planned.name}" + (" (`--variant` chooses another)" if len(plan.variants) > 1 else ""))
        if database:
            row = Matrix.load().backends[job.claims.backend.kind]
            entries = compile_commands(job.spec, action, project, row)
            replace_file(project / _DATABASE, json.dumps(entries, indent=2).encode() + b"\n")
            if as_json:
                found = {"file": str(project / _DATABASE), "variant": job.planned.name, "units": len(entries)}
                print_json(found)
            note(f"wrote {project / _DATABASE}: {len(entries)} units")
            return
        with scratch(workplace.cache / "work") as work:
            (work / "jobs").write_text("1\n", encoding="ascii")
            (work / _SCRIPT).write_text(f"{shlex.join(action.argv)}\n", encoding="utf-8")
            env = (*action.env, ("TERM", os.environ.get("TERM", "dumb")))
            told = replace(action, argv=tuple(context.obj or ("/bin/sh", "-i")), env=env)
            code = Bwrap().enter(told, work)
    raise typer.Exit(code)
