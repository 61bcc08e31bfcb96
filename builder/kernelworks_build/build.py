"""The road of one build: plan -> toolchain -> compile -> audit -> wheel -> revision in `dist/`."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kernelworks._version import __version__
from kernelworks.model.decode import parse_json
from kernelworks.model.digest import FileEntry, canonical_json, hash_bytes, hash_file, list_tree, tree_digest
from kernelworks.model.index import INDEX_NAME, Index, Source
from kernelworks.model.metadata import METADATA_NAME, Metadata
from kernelworks.model.variant import BackendFacts, TorchSymbols, Variant
from kernelworks_build import resources
from kernelworks_build.action import Action, ActionResult, Executor, Tree
from kernelworks_build.audit import Report, audit
from kernelworks_build.cache import ActionCache
from kernelworks_build.claims import Claims
from kernelworks_build.compile import CompileSpec, build_id, compile_spec, make_action
from kernelworks_build.compile_log import compile_error
from kernelworks_build.manifest import Manifest, source_files
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import PlannedVariant
from kernelworks_build.progress import Progress
from kernelworks_build.provenance import provenance
from kernelworks_build.revision import CARD, copy_variant, merge, read_revision
from kernelworks_build.schedule import available_memory, cores, parallel_units
from kernelworks_build.source import read_source, stage
from kernelworks_build.toolchain import Fetcher, LockSet, TreeStore, materialise
from kernelworks_build.toolchain.torch_sdk import symbols
from kernelworks_build.wheel import WheelName, write_wheel

__all__ = ["BUILDER", "Builder", "Built"]

BUILDER = f"kernel-build {__version__}"
_RUNNING = re.compile(r"^\[(\d+)/\d+\] ")


@dataclass(frozen=True)
class Built:
    """One variant that was built, or found built.

    Attributes:
        variant: Its facts, as the index lists them.
        folder: Revision-shaped folder that holds its wheel and files.
        audit: The audit's report as JSON.
        cpu_seconds: What compiling took when it was compiled.
        max_rss_bytes: Peak memory of its largest process.
        cached: Whether nothing had to be compiled.
    """

    variant: Variant
    folder: Path
    audit: Mapping[str, Any]
    cpu_seconds: float
    max_rss_bytes: int
    cached: bool


@dataclass(frozen=True)
class _Job:
    """One variant on its way: what is known of it before anything runs."""

    planned: PlannedVariant
    claims: Claims
    spec: CompileSpec


class Builder:
    """Builds the variants of one project."""

    def __init__(
        self,
        project: Path,
        manifest: Manifest,
        *,
        cache: Path,
        locks: LockSet,
        fetcher: Fetcher,
        executor: Executor,
        progress: Progress,
        jobs: int | None = None,
    ) -> None:
        self.project = project
        self.manifest = manifest
        self.locks = locks
        self.fetcher = fetcher
        self.executor = executor
        self.progress = progress
        self.jobs = jobs
        self.matrix = Matrix.load()
        self.store = TreeStore(cache / "trees")
        self.actions = ActionCache(cache / "actions")

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The declared files, relative to the project: all that a build can see."""
        return source_files(self.manifest, self.project)

    @cached_property
    def source(self) -> Source:
        """Digest and git state of the declared files."""
        return read_source(self.project, self.sources)

    def build(self, planned: PlannedVariant, logs: Path) -> Built:
        """Build one variant, or take it from the cache; a failed compile leaves its log in the folder `logs`.

        Raises:
            ToolchainError: An artifact cannot be had.
            CompileError: A source does not compile.
            AuditError: The result breaks a rule.
        """
        ident = build_id(self.manifest.python_name, planned.backend.kind, planned.name, self.source.digest)
        row = self.matrix.backends[planned.backend.kind]
        claims = Claims(
            planned.name,
            ident,
            self.manifest.python_name,
            planned.framework,
            planned.backend,
            planned.python_abi,
            planned.platform,
            planned.torch_releases,
        )
        job = _Job(planned, claims, compile_spec(self.manifest, planned, row, ident))
        key = self._key(job)
        entry = self.actions.get(key)
        cached = entry is not None
        if entry is None:
            entry = self.actions.put(key, lambda folder: self._make(job, folder, logs))
        stats = json.loads((entry / "stats.json").read_bytes())
        return Built(
            variant=Variant.from_json(parse_json((entry / "variant.json").read_bytes(), f"`{entry}`")),
            folder=entry,
            audit=json.loads((entry / "audit.json").read_bytes()),
            cpu_seconds=stats["cpu-seconds"],
            max_rss_bytes=stats["max-rss-bytes"],
            cached=cached,
        )

    def write_dist(self, built: list[Built], out: Path) -> Index:
        """Lay the variants out as the revision `out`, beside earlier ones that were made from the same sources."""
        general = self.manifest.general
        new = Index(
            name=general.name,
            version=general.version,
            license=general.license,
            source=self.source,
            builder=BUILDER,
            variants=tuple(sorted((item.variant for item in built), key=lambda variant: variant.name)),
        )
        index, _ = merge(new, read_revision(out))
        out.mkdir(parents=True, exist_ok=True)
        (out / INDEX_NAME).unlink(missing_ok=True)  # while files change, there is no index that speaks of them
        kept = {variant.name for variant in index.variants} | {variant.wheel.path for variant in index.variants}
        for stale in (path for path in (*out.glob("build/*"), *out.glob("wheels/*"))):
            if stale.name not in kept and stale.relative_to(out).as_posix() not in kept:
                shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
        for item in built:
            copy_variant(item.variant, item.folder, out)
        if (self.project / CARD).is_file():
            shutil.copyfile(self.project / CARD, out / CARD)
        (out / INDEX_NAME).write_bytes(index.to_bytes())
        return index

    def _key(self, job: _Job) -> str:
        """Digest of everything that decides the bytes of a wheel."""
        return hash_bytes(
            canonical_json(
                {
                    "builder": _own_digest(),
                    "claims": job.claims.to_json(),
                    "executor": self.executor.name,
                    "locks": self._lock_digests(job.planned),
                    "source": self.source.to_json(),
                    "spec": hash_bytes(job.spec.to_bytes()),
                }
            )
        )

    def _lock_digests(self, planned: PlannedVariant) -> dict[str, str]:
        return {name: hash_bytes(self.locks[name].dump().encode()) for name in planned.trees}

    def _make(self, job: _Job, folder: Path, logs: Path) -> None:
        """Compile, audit and pack one variant into `folder`."""
        trees = materialise(
            job.planned.trees,
            locks=self.locks,
            store=self.store,
            fetcher=self.fetcher,
            executor=self.executor,
            progress=self.progress,
        )
        action = make_action(
            job.planned, self.matrix.backends[job.planned.backend.kind], job.spec, trees | self._own_trees(job.spec)
        )
        package = folder / "build" / job.planned.name
        with self._compiled(job, action, logs) as result:
            self._lay_out(package, job, result.build_dir / job.spec.output)
            cpu_seconds, max_rss_bytes = result.cpu_seconds, result.max_rss_bytes
        report = audit(job.claims, package, symbols)
        report.require()
        metadata = self._metadata(job.claims, report, list_tree(package))
        (package / METADATA_NAME).write_bytes(metadata.to_bytes())
        wheel = self._pack(job, action, package, folder)
        variant = self._variant(job, report, package, FileEntry(wheel.relative_to(folder).as_posix(), *hash_file(wheel)))
        (folder / "variant.json").write_bytes(canonical_json(variant.to_json()))
        (folder / "audit.json").write_bytes(canonical_json(report.to_json()))
        stats = {"cpu-seconds": cpu_seconds, "max-rss-bytes": max_rss_bytes}
        (folder / "stats.json").write_bytes(canonical_json(stats))

    def _own_trees(self, spec: CompileSpec) -> dict[str, Tree]:
        """The trees that are no toolchain: the project's files, compile.json, our CMakeLists.txt and headers."""

        def builder(folder: Path) -> None:
            shutil.copyfile(resources.CMAKE_LISTS, folder / "CMakeLists.txt")
            shutil.copytree(resources.INCLUDE, folder / "include")

        return {
            "source": self.store.add(lambda folder: stage(self.project, self.sources, folder)),
            "spec": self.store.add(lambda folder: _write(folder / "compile.json", spec.to_bytes())),
            "builder": self.store.add(builder),
        }

    @contextmanager
    def _compiled(self, job: _Job, action: Action, logs: Path) -> Iterator[ActionResult]:
        """Run `action`; the folder with its outputs exists while the context does."""
        planned = job.planned
        kind = "stable" if planned.framework.kind == "torch-stable-abi" else "full"
        unit_memory = self.matrix.backends[planned.backend.kind].unit_memory[kind]
        with TemporaryDirectory(prefix="kernelworks-") as temporary:
            work = Path(temporary) / "build"
            work.mkdir()
            jobs = parallel_units(self.jobs, unit_memory=unit_memory, cores=cores(), memory=available_memory())
            (work / "jobs").write_text(f"{jobs}\n")
            steps = len(job.spec.document["units"]) + 1
            with self.progress.task(f"compile {planned.name}", steps, "steps") as advance:
                result = self.executor.run(action, work, Path(temporary) / "log", _steps(advance))
            if result.exit_code != 0 or result.missing_outputs:
                logs.mkdir(parents=True, exist_ok=True)
                log = logs / f"{planned.name}.log"
                shutil.copyfile(result.log, log)
                raise compile_error(
                    result,
                    variant=planned.name,
                    project=self.project,
                    declared=self.sources,
                    log=log,
                )
            yield result

    def _lay_out(self, package: Path, job: _Job, library: Path) -> None:
        """The package folder: the author's Python files, `_ops.py`, and the library."""
        package.mkdir(parents=True)
        prefix = f"{self.manifest.package_folder}/"
        for path in (path for path in self.sources if path.startswith(prefix)):
            copy = package / path.removeprefix(prefix)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.project / path, copy)
        _write(package / "_ops.py", _OPS.format(id=job.claims.id).encode())
        shutil.copyfile(library, package / job.spec.output)
        (package / job.spec.output).chmod(0o755)

    def _metadata(self, claims: Claims, report: Report, files: list[FileEntry]) -> Metadata:
        general = self.manifest.general
        ptx = set(report.device_archs.ptx)
        archs = dict.fromkeys((*report.device_archs.sass, *report.device_archs.ptx))
        return Metadata(
            id=claims.id,
            name=general.name,
            version=general.version,
            license=general.license,
            backend=claims.backend.kind,
            archs=tuple(f"{arch}+PTX" if arch in ptx else arch for arch in archs),
            python_depends=self._python_depends(claims),
            files=tuple(files),
            builder_version=__version__,
            commit=self.source.commit,
            dirty=self.source.dirty,
            upstream=general.upstream,
            source=general.source,
        )

    def _python_depends(self, claims: Claims) -> tuple[str, ...]:
        return tuple(item.name for item in self.manifest.python_depends(claims.backend.kind))

    def _pack(self, job: _Job, action: Action, package: Path, folder: Path) -> Path:
        general = self.manifest.general
        name = WheelName.of(job.claims, general.version, self.matrix.wheel_tag)
        records = {
            "claims.json": canonical_json(job.claims.to_json()),
            "compile.json": job.spec.to_bytes(),
            "provenance.json": provenance(
                builder=BUILDER,
                source=self.source,
                action=action,
                locks=self._lock_digests(job.planned),
                executor=self.executor.name,
                hermetic=self.executor.hermetic,
            ),
        } | {f"locks/{lock}.toml": self.locks[lock].dump().encode() for lock in job.planned.trees}
        wheel = folder / "wheels" / name.file
        wheel.parent.mkdir()
        write_wheel(
            wheel,
            name,
            metadata={"License": general.license, "Summary": f"GPU kernel {general.name}"},
            framework=job.claims.framework,
            package=package,
            records=records,
        )
        return wheel

    def _variant(self, job: _Job, report: Report, package: Path, wheel: FileEntry) -> Variant:
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
            python_depends=self._python_depends(claims),
            wheel=wheel,
            package=claims.package,
            files=tuple(list_tree(package)),
            lock=self.locks.digest(job.planned.trees),
            hermetic=self.executor.hermetic,
        )


_OPS = '''"""The op namespace of this build."""

import torch

from . import {id}  # noqa: F401  # importing it registers the ops

ops = torch.ops.{id}


def add_op_namespace_prefix(op_name: str) -> str:
    """The full name of the op `op_name`, as `torch.library` wants it."""
    return f"{id}::{{op_name}}"
'''


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _steps(advance: Callable[[int], None]) -> Callable[[str], None]:
    """Turns ninja's `[2/7] ...` lines into progress."""
    done = 0

    def on_line(line: str) -> None:
        nonlocal done
        if found := _RUNNING.match(line):
            advance(int(found[1]) - done)
            done = int(found[1])

    return on_line


def _own_digest() -> str:
    """Digest of the program itself, so that a changed builder never serves what another one made."""
    root = Path(__file__).parent
    own = [path for path in root.rglob("*") if path.suffix in {".py", ".toml", ".h"}]
    return tree_digest(
        FileEntry(path.name if path == resources.CMAKE_LISTS else path.relative_to(root).as_posix(), *hash_file(path))
        for path in (*own, resources.CMAKE_LISTS)
    )
