"""`kernel-build rebuild`: a wheel once more from what it records, compared byte for byte."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from kernelworks.settings import cache_root, shared_caches
from kernelworks_build.cli.console import JsonOption, live_progress, note, print_json
from kernelworks_build.cli.project import folder_of_manifest, open_locks, plan_project
from kernelworks_build.errors import RebuildError
from kernelworks_build.job import BUILDER, Project, Workplace
from kernelworks_build.planned import PlannedVariant
from kernelworks_build.rebuild import check_out, open_sources, rebuild, require_equal
from kernelworks_build.record import Record
from kernelworks_build.sandbox import executor
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.usage import in_use
from kernelworks_build.writable import require_writable


def command(
    wheel: Annotated[Path, typer.Argument(help="A wheel that kernel-build made.", metavar="WHEEL")],
    *,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            help="Folder of its sources; without it, git's commit that the index beside it names.",
            metavar="FOLDER",
            callback=lambda path: path and folder_of_manifest(path),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Keep the new wheel there.", metavar="FOLDER")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Translation units at once.", metavar="N")] = None,
    as_json: JsonOption = False,
) -> None:
    """Build a wheel again, and compare every byte. Sources, locks and sandbox are those that it records."""
    record = Record.read(wheel)
    if out:
        require_writable(out)
    with TemporaryDirectory(prefix="kernelworks-") as temporary, live_progress() as progress, in_use(cache_root()):
        folder = (source or check_out(record, Path(temporary, "checkout"))).absolute()
        project = open_sources(record, folder, TreeStore(cache_root() / "trees", progress))
        locks = record.locks_over(open_locks(folder))
        logs = (out or Path(temporary)) / "logs"
        runner = executor(record.executor, locks)
        workplace = Workplace(cache_root(), locks, runner, progress, logs, jobs, shared=shared_caches())
        made = rebuild(record, project, _planned(record, project, locks), workplace, out or Path(temporary, "made"))
        require_equal(record, made)
    if as_json:
        builders = {"recorded": record.builder, "this": BUILDER}
        print_json({"wheel": str(wheel), "variant": record.claims.name, "equal": True, "builder": builders})
        return
    note(f"{wheel.name}: made again, every byte is the same")


def _planned(record: Record, project: Project, locks: LockSet) -> PlannedVariant:
    """The recorded variant, for the archs that it was made for.

    Raises:
        RebuildError: The plan has no such variant.
    """
    claims = record.claims
    archs = claims.backend.archs.spelled()
    for wanted in (None, ",".join(archs)) if archs else (None,):
        plan = plan_project(project.manifest, locks, wanted)
        for planned in plan.variants:
            if planned.name == claims.name and planned.backend == claims.backend:
                return planned
    raise RebuildError(
        f"this builder plans no `{' '.join([claims.name, *archs])}` from these sources",
        hint=f"it was built by `{record.builder}`, and this is `{BUILDER}`",
        planned=[item.name for item in plan.variants],
    )
