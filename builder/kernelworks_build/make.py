"""Makes one variant: toolchain -> compile -> package -> audit -> wheel. This is where the work is done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelworks._version import __version__
from kernelworks.model.digest import FileEntry, canonical_json, hash_file, list_tree
from kernelworks.model.metadata import METADATA_NAME, Metadata
from kernelworks.model.python_packages import PythonPackage
from kernelworks.model.variant import BackendFacts, KernelDependency, TorchSymbols, Variant
from kernelworks.transport.directory_layout import BUILD
from kernelworks_build import resources
from kernelworks_build.action import Action, ActionResult
from kernelworks_build.audit import Report, audit
from kernelworks_build.compile import CompileSpec, make_action
from kernelworks_build.compile_log import compile_error
from kernelworks_build.compiling import compile_units
from kernelworks_build.errors import CompileError
from kernelworks_build.job import BUILDER, Job, Workplace
from kernelworks_build.manifest.files import GENERATED_MODULE
from kernelworks_build.ops_module import ops_module
from kernelworks_build.provenance import provenance
from kernelworks_build.record import SOURCES
from kernelworks_build.scratch import scratch
from kernelworks_build.source import copy_files
from kernelworks_build.toolchain.symbol_list import symbols
from kernelworks_build.translation import source_tree, translation_of
from kernelworks_build.trees import locked_tree, make_trees
from kernelworks_build.wheel import WheelName, write_wheel

__all__ = ["action_of", "make", "make_toolchain"]

_HEADERS, _STATS = "headers.json", "stats.json"
_NO_STATS = canonical_json({"cpu-seconds": 0, "max-rss-bytes": 0, "units": [], "units-cached": 0})


def make(job: Job, workplace: Workplace, folder: Path) -> bool:
    """Compile, audit and pack `job` into the empty `folder`; whether its library, if it has one, is new.

    The folder then holds a revision of this one variant without an index, `wheels/` and `build/<variant>/`, and
    beside them `variant.json`, `audit.json` and `stats.json`.

    Raises:
        ToolchainError, SandboxError, CompileError, AuditError: As their names say.
    """
    making = _make_library(job, job.spec, workplace) if job.spec else None
    package = folder / BUILD / job.planned.name
    _lay_out(package, job, making.library if making else None)
    exports = workplace.locks.symbol_list
    with workplace.progress.task(f"audit {job.planned.name}", None, "rules"):
        report = audit(job.claims, package, lambda lock: symbols(exports(lock)), job.project.tree.path)
    report.require()
    with workplace.progress.task(f"pack {job.planned.name}", None, "files"):
        _write(package / METADATA_NAME, _metadata(job, report, list_tree(package)).to_bytes())
        wheel = _pack(job, workplace, making, package, folder / "wheels")
        variant = _variant(job, workplace, report, package, wheel)
    for name, document in (("variant", variant.to_json()), ("audit", report.to_json())):
        _write(folder / f"{name}.json", canonical_json(document))
    _write(folder / _STATS, making.stats if making else _NO_STATS)
    return making is None or making.fresh


@dataclass(frozen=True)
class _Making:
    """How the shared library of a variant was made.

    Attributes:
        library: Where it lies.
        headers: As `provenance` takes them.
        stats: What it cost, as JSON.
        fresh: Whether it was compiled now.
    """

    action: Action
    library: Path
    headers: Mapping[str, str]
    stats: bytes
    fresh: bool


def _make_library(job: Job, spec: CompileSpec, workplace: Workplace) -> _Making:
    """The library of `job`, compiled or from the cache."""
    action = action_of(job, spec, workplace)
    compiled = False

    def fill(entry: Path) -> None:
        nonlocal compiled
        compiled = True
        _compile(job, spec, workplace, action, entry)

    entry = workplace.result_of(action, fill)
    headers = json.loads((entry / _HEADERS).read_bytes())
    return _Making(action, entry / spec.output, headers, (entry / _STATS).read_bytes(), compiled)


def action_of(job: Job, spec: CompileSpec, workplace: Workplace) -> Action:
    """The action of `job`; the locked trees in it may still have to be made, its sources are translated.

    Raises:
        ToolchainError, SandboxError, CompileError: As those of translating say.
    """

    def builder(folder: Path) -> None:
        copy_files(resources.CMAKE_LISTS.parent, [resources.CMAKE_LISTS.name], folder)
        for own in (resources.INCLUDE, resources.SLIM):
            copy_files(own, (entry.path for entry in list_tree(own)), folder / own.name)

    store = workplace.store
    trees = {name: locked_tree(name, workplace) for name in job.planned.trees} | {
        "source": source_tree(job, workplace),
        "spec": store.add(lambda folder: _write(folder / "compile.json", spec.to_bytes())),
        "builder": store.add(builder),
    }
    return make_action(job.planned, spec, trees)


def make_toolchain(job: Job, workplace: Workplace) -> None:
    """Make the locked trees of `job` that are missing.

    Raises:
        ToolchainError, SandboxError: As their names say.
    """
    make_trees(job.planned.trees, workplace)


def _compile(job: Job, spec: CompileSpec, workplace: Workplace, action: Action, entry: Path) -> None:
    """Make the toolchain and run `action`; the library and what it cost go into the folder `entry`."""
    make_toolchain(job, workplace)
    with scratch(workplace.cache / "work") as work:
        done = compile_units(action, spec, workplace, work, f"compile {job.planned.name}")
        if done.result.exit_code != 0 or done.result.missing_outputs:
            raise _failure(job, workplace, done.result)
        copy_files(done.result.build_dir, action.outputs, entry)
        _write(entry / _HEADERS, canonical_json(done.headers))
    _write(entry / _STATS, canonical_json(done.stats))


def _failure(job: Job, workplace: Workplace, result: ActionResult) -> CompileError:
    """The error of a compile that failed; its log is kept."""
    return compile_error(
        result,
        variant=job.planned.name,
        project=job.project.folder,
        declared=job.project.files,
        log=workplace.keep_log(result.log, f"{job.planned.name}.log"),
        translated=bool(job.planned.translation),
    )


def _lay_out(package: Path, job: Job, library: Path | None) -> None:
    """The package folder: the author's Python files, `_ops.py`, and the library where there is one."""
    package.mkdir(parents=True)
    prefix = f"{job.project.manifest.package_folder}/"
    own = [path.removeprefix(prefix) for path in job.project.files if path.startswith(prefix)]
    copy_files(job.project.tree.path / prefix, own, package)
    _write(package / GENERATED_MODULE, ops_module(job.claims).encode())
    if library:
        shutil.copyfile(library, package / library.name)


def _metadata(job: Job, report: Report, files: list[FileEntry]) -> Metadata:
    general = job.project.manifest.general
    return Metadata(
        id=job.claims.id,
        name=general.name,
        version=general.version,
        license=general.license,
        backend=job.claims.backend.kind,
        archs=_archs(job, report),
        python_depends=tuple(item.name for item in _python_depends(job)),
        files=tuple(files),
        builder_version=__version__,
        kernel_depends=_kernel_depends(job),
        upstream=general.upstream,
        source=general.source,
    )


def _archs(job: Job, report: Report) -> tuple[str, ...]:
    """The device archs inside; of a kernel that is Python alone, those that it is meant for."""
    meant = job.project.manifest.torch_noarch
    if meant is None:
        return report.device_archs.spelled()
    return meant.archs(job.claims.backend.kind)


def _framework(job: Job) -> list[str]:
    """The framework, where the wheel's ABI does not ask for a version of it."""
    if job.claims.framework.kind == "tvm-ffi":
        return ["apache-tvm-ffi"]
    return [] if job.spec else ["torch"]


def _python_depends(job: Job) -> tuple[PythonPackage, ...]:
    return job.project.manifest.python_depends(job.claims.backend.kind)


def _kernel_depends(job: Job) -> tuple[KernelDependency, ...]:
    listed = job.project.manifest.kernel_depends(job.claims.backend.kind)
    return tuple(KernelDependency(item.repo_id, item.version, item.revision) for item in listed)


def _pack(job: Job, workplace: Workplace, making: _Making | None, package: Path, wheels: Path) -> Path:
    """The wheel, in `wheels`."""
    general = job.project.manifest.general
    name = WheelName.of(job.claims, general.version, job.wheel_tag)
    locks = workplace.locks
    record = provenance(
        builder=BUILDER,
        source=job.project.source.digest,
        action=making.action if making else None,
        translation=translation_of(job, workplace),
        headers=making.headers if making else {},
        locks=locks.digests(job.planned.locks),
        executor=workplace.executor.name,
        hermetic=workplace.executor.hermetic,
    )
    records = {
        "claims.json": canonical_json(job.claims.to_json()),
        "provenance.json": record,
        SOURCES: canonical_json([entry.to_json() for entry in list_tree(job.project.tree.path)]),
        **({"compile.json": job.spec.to_bytes()} if job.spec else {}),
    } | {f"locks/{lock}.toml": locks[lock].dump().encode() for lock in job.planned.locks}
    wheels.mkdir()
    write_wheel(
        wheels / name.file,
        name,
        metadata={"License": general.license, "Summary": f"GPU kernel {general.name}"},
        framework=job.claims.framework,
        python_abi=job.claims.python_abi,
        requires=[*_framework(job), *(item.package for item in _python_depends(job))],
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
        lock=workplace.locks.digest(job.planned.locks),
        hermetic=workplace.executor.hermetic,
        kernel_depends=_kernel_depends(job),
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
