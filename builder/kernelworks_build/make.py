"""Makes one variant: toolchain -> compile -> package -> audit -> wheel. This is where the work is done."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelworks._version import __version__
from kernelworks.model.digest import FileEntry, canonical_json, hash_file, list_tree
from kernelworks.model.metadata import METADATA_NAME, Metadata
from kernelworks.model.variant import BackendFacts, TorchSymbols, Variant
from kernelworks_build import resources
from kernelworks_build.action import Action, ActionResult, Tree
from kernelworks_build.audit import Report, audit
from kernelworks_build.compile import make_action
from kernelworks_build.compile_log import compile_error
from kernelworks_build.job import BUILDER, Job, Workplace
from kernelworks_build.manifest.files import GENERATED_MODULE
from kernelworks_build.provenance import provenance
from kernelworks_build.schedule import available_memory, cores, parallel_units
from kernelworks_build.source import stage
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.torch_sdk import symbols
from kernelworks_build.wheel import WheelName, write_wheel

__all__ = ["make"]

_RUNNING = re.compile(r"^\[(\d+)/\d+\] ")
_OPS = '''"""The op namespace of this build."""

import torch

from . import {id}  # noqa: F401  # importing it registers the ops

ops = torch.ops.{id}


def add_op_namespace_prefix(op_name: str) -> str:
    """The full name of the op `op_name`, as `torch.library` wants it."""
    return f"{id}::{{op_name}}"
'''


def make(job: Job, workplace: Workplace, folder: Path) -> None:
    """Compile, audit and pack `job` into the empty `folder`.

    It then holds a revision of this one variant without an index: `wheels/`, `build/<variant>/`, and beside them
    `variant.json`, `audit.json` and `stats.json`.

    Raises:
        ToolchainError, SandboxError, CompileError, AuditError: As their names say.
    """
    workplace.executor.check()
    store = TreeStore(workplace.cache / "trees")
    trees = materialise(
        job.planned.trees,
        locks=workplace.locks,
        store=store,
        fetcher=Fetcher(workplace.cache, Origins(), workplace.progress),
        executor=workplace.executor,
        progress=workplace.progress,
    )
    action = make_action(job.planned, job.row, job.spec, trees | _own_trees(job, store))
    package = folder / "build" / job.planned.name
    with _compiled(job, workplace, action) as result:
        _lay_out(package, job, result.build_dir / job.spec.output)
        stats = {"cpu-seconds": result.cpu_seconds, "max-rss-bytes": result.max_rss_bytes}
    report = audit(job.claims, package, partial(symbols, folders=workplace.locks.folders))
    report.require()
    _write(package / METADATA_NAME, _metadata(job, report, list_tree(package)).to_bytes())
    wheel = _pack(job, workplace, action, package, folder / "wheels")
    variant = _variant(job, workplace, report, package, wheel)
    for name, document in (("variant", variant.to_json()), ("audit", report.to_json()), ("stats", stats)):
        _write(folder / f"{name}.json", canonical_json(document))


def _own_trees(job: Job, store: TreeStore) -> dict[str, Tree]:
    """The trees that are no toolchain: the project's files, compile.json, our CMakeLists.txt and headers."""

    def builder(folder: Path) -> None:
        shutil.copyfile(resources.CMAKE_LISTS, folder / "CMakeLists.txt")
        shutil.copytree(resources.INCLUDE, folder / "include")

    return {
        "source": store.add(lambda folder: stage(job.project.folder, job.project.files, folder)),
        "spec": store.add(lambda folder: _write(folder / "compile.json", job.spec.to_bytes())),
        "builder": store.add(builder),
    }


@contextmanager
def _compiled(job: Job, workplace: Workplace, action: Action) -> Iterator[ActionResult]:
    """Run `action`; the folder with its outputs exists while the context does."""
    with TemporaryDirectory(prefix="kernelworks-") as temporary:
        work = Path(temporary) / "build"
        work.mkdir()
        units = parallel_units(workplace.jobs, unit_memory=_unit_memory(job), cores=cores(), memory=available_memory())
        (work / "jobs").write_text(f"{units}\n")
        steps = len(job.spec.document["units"]) + 1
        with workplace.progress.task(f"compile {job.planned.name}", steps, "steps") as advance:
            result = workplace.executor.run(action, work, Path(temporary) / "log", _steps(advance))
        if result.exit_code != 0 or result.missing_outputs:
            workplace.logs.mkdir(parents=True, exist_ok=True)
            log = workplace.logs / f"{job.planned.name}.log"
            shutil.copyfile(result.log, log)
            project = job.project
            raise compile_error(
                result, variant=job.planned.name, project=project.folder, declared=project.files, log=log
            )
        yield result


def _unit_memory(job: Job) -> int:
    return job.row.unit_memory["stable" if job.planned.framework.kind == "torch-stable-abi" else "full"]


def _steps(advance: Callable[[int], None]) -> Callable[[str], None]:
    """Turns ninja's `[2/7] ...` lines into progress."""
    done = 0

    def on_line(line: str) -> None:
        nonlocal done
        if found := _RUNNING.match(line):
            advance(int(found[1]) - done)
            done = int(found[1])

    return on_line


def _lay_out(package: Path, job: Job, library: Path) -> None:
    """The package folder: the author's Python files, `_ops.py`, and the library."""
    package.mkdir(parents=True)
    prefix = f"{job.project.manifest.package_folder}/"
    own = [path.removeprefix(prefix) for path in job.project.files if path.startswith(prefix)]
    stage(job.project.folder / prefix, own, package)
    _write(package / GENERATED_MODULE, _OPS.format(id=job.claims.id).encode())
    shutil.copyfile(library, package / job.spec.output)


def _metadata(job: Job, report: Report, files: list[FileEntry]) -> Metadata:
    general = job.project.manifest.general
    return Metadata(
        id=job.claims.id,
        name=general.name,
        version=general.version,
        license=general.license,
        backend=job.claims.backend.kind,
        archs=report.device_archs.spelled(),
        python_depends=_python_depends(job),
        files=tuple(files),
        builder_version=__version__,
        commit=job.project.source.commit,
        dirty=job.project.source.dirty,
        upstream=general.upstream,
        source=general.source,
    )


def _python_depends(job: Job) -> tuple[str, ...]:
    return tuple(item.name for item in job.project.manifest.python_depends(job.claims.backend.kind))


def _pack(job: Job, workplace: Workplace, action: Action, package: Path, wheels: Path) -> Path:
    """The wheel, in `wheels`."""
    general = job.project.manifest.general
    name = WheelName.of(job.claims, general.version, job.wheel_tag)
    locks = workplace.locks
    record = provenance(
        builder=BUILDER,
        source=job.project.source,
        action=action,
        locks=locks.digests(job.planned.trees),
        executor=workplace.executor.name,
        hermetic=workplace.executor.hermetic,
    )
    records = {
        "claims.json": canonical_json(job.claims.to_json()),
        "compile.json": job.spec.to_bytes(),
        "provenance.json": record,
    } | {f"locks/{lock}.toml": locks[lock].dump().encode() for lock in job.planned.trees}
    wheels.mkdir()
    write_wheel(
        wheels / name.file,
        name,
        metadata={"License": general.license, "Summary": f"GPU kernel {general.name}"},
        framework=job.claims.framework,
        package=package,
        records=records,
    )
    return wheels / name.file


def _variant(job: Job, workplace: Workplace, report: Report, package: Path, wheel: Path) -> Variant:
    claims = job.claims
    return Variant(
        name=claims.name,
        id=claims.id,
        framework=claims.framework,
        backend=BackendFacts(claims.backend.kind, claims.backend.version, report.device_archs),
        python_abi=claims.python_abi,
        platform=claims.platform,
        libraries=report.libraries,
        torch_symbols=TorchSymbols(report.torch_symbols),
        python_depends=_python_depends(job),
        wheel=FileEntry(f"wheels/{wheel.name}", *hash_file(wheel)),
        package=claims.package,
        files=tuple(list_tree(package)),
        lock=workplace.locks.digest(job.planned.trees),
        hermetic=workplace.executor.hermetic,
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
