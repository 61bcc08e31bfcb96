"""One variant of a project on its way: all that is known of it, and of where it is built, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernelworks._version import __version__
from kernelworks.model.digest import FileEntry, canonical_json, hash_bytes, hash_file, tree_digest
from kernelworks.model.index import Source
from kernelworks_build import resources
from kernelworks_build.action import Executor
from kernelworks_build.claims import Claims
from kernelworks_build.compile import CompileSpec, build_id, compile_spec
from kernelworks_build.manifest import Manifest, source_files
from kernelworks_build.matrix import BackendRow, Matrix
from kernelworks_build.plan import PlannedVariant
from kernelworks_build.progress import Progress
from kernelworks_build.source import read_source
from kernelworks_build.toolchain.lock import LockSet

__all__ = ["BUILDER", "Job", "Project", "Workplace"]

BUILDER = f"kernel-build {__version__}"


@dataclass(frozen=True)
class Project:
    """What is built.

    Attributes:
        folder: The author's folder.
        manifest: Its manifest.
        files: The declared files, relative to the folder: all that a build can see.
        source: Their digest and the state of git.
    """

    folder: Path
    manifest: Manifest
    files: tuple[str, ...]
    source: Source

    @classmethod
    def read(cls, folder: Path, manifest: Manifest) -> Project:
        """The project in `folder` as it is now."""
        files = source_files(manifest, folder)
        return cls(folder, manifest, files, read_source(folder, files))


@dataclass(frozen=True)
class Workplace:
    """Where and with what is built.

    Attributes:
        cache: Folder of downloads, toolchains and results.
        locks: The toolchains.
        executor: The sandbox.
        progress: Who listens.
        logs: Folder for the logs of compiles that fail.
        jobs: Translation units at once, or None: as many as cores and memory allow.
    """

    cache: Path
    locks: LockSet
    executor: Executor
    progress: Progress
    logs: Path
    jobs: int | None = None


@dataclass(frozen=True)
class Job:
    """One variant of a project, lowered: everything that is known before anything runs."""

    project: Project
    planned: PlannedVariant
    row: BackendRow
    claims: Claims
    spec: CompileSpec
    wheel_tag: str

    @classmethod
    def of(cls, project: Project, planned: PlannedVariant, matrix: Matrix) -> Job:
        """The job that makes `planned`."""
        package, backend = project.manifest.python_name, planned.backend.kind
        ident = build_id(package, backend, planned.name, project.source.digest)
        row = matrix.backends[backend]
        claims = Claims(
            name=planned.name,
            id=ident,
            package=package,
            framework=planned.framework,
            backend=planned.backend,
            python_abi=planned.python_abi,
            platform=planned.platform,
            torch_releases=planned.torch_releases,
        )
        return cls(
            project,
            planned,
            row,
            claims,
            compile_spec(project.manifest, planned, row, ident),
            matrix.wheel_tag,
        )

    def key(self, workplace: Workplace) -> str:
        """Digest of everything that decides the bytes of the wheel."""
        return hash_bytes(
            canonical_json(
                {
                    "builder": _own_digest(),
                    "claims": self.claims.to_json(),
                    "executor": workplace.executor.name,
                    "locks": workplace.locks.digests(self.planned.trees),
                    "source": self.project.source.to_json(),
                    "spec": hash_bytes(self.spec.to_bytes()),
                }
            )
        )


def _own_digest() -> str:
    """Digest of the program itself, so that a changed builder never serves what another one made."""
    root = Path(__file__).parent
    own = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.suffix in {".py", ".toml", ".h"}}
    own[resources.CMAKE_LISTS.name] = resources.CMAKE_LISTS
    return tree_digest(FileEntry(name, *hash_file(path)) for name, path in own.items())
