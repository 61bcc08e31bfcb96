"""Makes one variant: toolchain -> compile -> package -> audit -> wheel. This is where the work is done."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from kernelworks._version import __version__
from kernelworks.model.digest import FileEntry, canonical_json, hash_bytes, hash_file, list_tree
from kernelworks.model.metadata import METADATA_NAME, Metadata
from kernelworks.model.variant import BackendFacts, TorchSymbols, Variant
from kernelworks.transport.directory_layout import BUILD
from kernelworks_build import resources
from kernelworks_build.action import Action, ActionResult, Tree
from kernelworks_build.audit import Report, audit
from kernelworks_build.cache import ResultCache
from kernelworks_build.compile import make_action
from kernelworks_build.compile_log import compile_error
from kernelworks_build.errors import CompileError
from kernelworks_build.job import BUILDER, Job, Workplace
from kernelworks_build.manifest.dependencies import PythonDependency
from kernelworks_build.manifest.files import GENERATED_MODULE
from kernelworks_build.provenance import provenance
from kernelworks_build.schedule import available_memory, cores, parallel_units
from kernelworks_build.scratch import scratch
from kernelworks_build.source import copy_files
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.torch_sdk import symbols
from kernelworks_build.wheel import WheelName, write_wheel

__all__ = ["make"]

_STATS = "stats.json"
_RUNNING = re.compile(r"^\[(\d+)/\d+\] ")
_OPS = '''"""The op namespace of this build."""

import torch

from . import {id}  # noqa: F401  # importing it registers the ops

ops = torch.ops.{id}


def add_op_namespace_prefix(op_name: str) -> str:
    """The full name of the op `op_name`, as `torch.library` wants it."""
    return f"{id}::{{op_name}}"
'''


def make(job: Job, workplace: Workplace, folder: Path) -> bool:
    """Compile, audit and pack `job` into the empty `folder`; whether it had to be compiled.

    The folder then holds a revision of this one variant without an index, `wheels/` and `build/<variant>/`, and
    beside them `variant.json`, `audit.json` and `stats.json`.

    Raises:
        ToolchainError, SandboxError, CompileError, AuditError: As their names say.
    """
    action = _action(job, workplace)
    compiled = False

    def fill(entry: Path) -> None:
        nonlocal compiled
        compiled = True
        _compile(job, workplace, action, entry)

    key = hash_bytes(canonical_json({"action": action.digest(), "executor": workplace.executor.name}))
    entry = ResultCache(workplace.cache / "actions", workplace.progress).get_or_make(key, fill)
    package = folder / BUILD / job.planned.name
    _lay_out(package, job, entry / job.spec.output)
    report = audit(job.claims, package, lambda release: symbols(workplace.locks.symbol_list(release)))
    report.require()
    _write(package / METADATA_NAME, _metadata(job, report, list_tree(package)).to_bytes())
    wheel = _pack(job, workplace, action, package, folder / "wheels")
    variant = _variant(job, workplace, report, package, wheel)
    for name, document in (("variant", variant.to_json()), ("audit", report.to_json())):
        _write(folder / f"{name}.json", canonical_json(document))
    shutil.copyfile(entry / _STATS, folder / _STATS)
    return compiled


def _action(job: Job, workplace: Workplace) -> Action:
    """The action of `job`; the locked trees in it may still have to be made."""

    def builder(folder: Path) -> None:
        copy_files(resources.CMAKE_LISTS.parent, [resources.CMAKE_LISTS.name], folder)
        headers = [path.name for path in resources.INCLUDE.iterdir()]
        copy_files(resources.INCLUDE, headers, folder / "include")

    store, locks = workplace.store, workplace.locks
    trees = {name: Tree(locks[name].digest, store.root / locks[name].digest) for name in job.planned.trees}
    trees |= {
        "source": job.project.tree,
        "spec": store.add(lambda folder: _write(folder / "compile.json", job.spec.to_bytes())),
        "builder": store.add(builder),
    }
    return make_action(job.planned, job.row, job.spec, trees)


def _compile(job: Job, workplace: Workplace, action: Action, entry: Path) -> None:
    """Make the toolchain and run `action`; the library and what it cost go into the folder `entry`."""
    workplace.executor.check()
    materialise(
        job.planned.trees,
        locks=workplace.locks,
        store=workplace.store,
        fetcher=Fetcher(workplace.cache, Origins(), workplace.progress),
        executor=workplace.executor,
        progress=workplace.progress,
    )
    with scratch(workplace.cache / "work") as work:
        build_dir = work / "build"
        build_dir.mkdir()
        memory = min(available_memory(), action.limits.memory_bytes)
        units = parallel_units(workplace.jobs, unit_memory=_unit_memory(job), cores=cores(), memory=memory)
        (build_dir / "jobs").write_text(f"{units}\n")
        steps = len(job.spec.document["units"]) + 1
        with workplace.progress.task(f"compile {job.planned.name}", steps, "steps") as advance:
            result = workplace.executor.run(action, build_dir, work / "log", _steps(advance))
        if result.exit_code != 0 or result.missing_outputs:
            raise _failure(job, workplace, result)
        copy_files(build_dir, action.outputs, entry)
    stats = {"cpu-seconds": result.cpu_seconds, "max-rss-bytes": result.max_rss_bytes}
    _write(entry / _STATS, canonical_json(stats))


def _failure(job: Job, workplace: Workplace, result: ActionResult) -> CompileError:
    """The error of a compile that failed; its log is kept."""
    workplace.logs.mkdir(parents=True, exist_ok=True)
    log = workplace.logs / f"{job.planned.name}.log"
    shutil.copyfile(result.log, log)
    project = job.project
    return compile_error(result, variant=job.planned.name, project=project.folder, declared=project.files, log=log)


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
    copy_files(job.project.tree.path / prefix, own, package)
    _write(package / GENERATED_MODULE, _OPS.format(id=job.claims.id).encode())
    shutil.copyfile(library, package / library.name)


def _metadata(job: Job, report: Report, files: list[FileEntry]) -> Metadata:
    general = job.project.manifest.general
    return Metadata(
        id=job.claims.id,
        name=general.name,
        version=general.version,
        license=general.license,
        backend=job.claims.backend.kind,
        archs=report.device_archs.spelled(),
        python_depends=tuple(item.name for item in _python_depends(job)),
        files=tuple(files),
        builder_version=__version__,
        upstream=general.upstream,
        source=general.source,
    )


def _python_depends(job: Job) -> tuple[PythonDependency, ...]:
    return job.project.manifest.python_depends(job.claims.backend.kind)


def _pack(job: Job, workplace: Workplace, action: Action, package: Path, wheels: Path) -> Path:
    """The wheel, in `wheels`."""
    general = job.project.manifest.general
    name = WheelName.of(job.claims, general.version, job.wheel_tag)
    locks = workplace.locks
    record = provenance(
        builder=BUILDER,
        source=job.project.source.digest,
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
        python_abi=job.claims.python_abi,
        requires=[item.package for item in _python_depends(job)],
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
        python_depends=tuple(item.name for item in _python_depends(job)),
        wheel=FileEntry(f"wheels/{wheel.name}", *hash_file(wheel)),
        package=claims.package,
        files=tuple(list_tree(package)),
        lock=workplace.locks.digest(job.planned.trees),
        hermetic=workplace.executor.hermetic,
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
