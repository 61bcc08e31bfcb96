"""One variant of a project on its way: all that is known of it, and of where it is built, before anything runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import kernelworks
import kernelworks_build
from kernelworks._version import __version__
from kernelworks.model.digest import FileEntry, canonical_json, hash_bytes, hash_file, tree_digest
from kernelworks.model.index import Source
from kernelworks_build import resources
from kernelworks_build.action import Action, Executor, Tree
from kernelworks_build.cache import ResultCache, action_key
from kernelworks_build.claims import Claims
from kernelworks_build.compile import CompileSpec, build_id, compile_spec
from kernelworks_build.errors import ManifestError
from kernelworks_build.manifest import MANIFEST, Manifest, parse_manifest, source_files
from kernelworks_build.matrix import Matrix
from kernelworks_build.planned import PlannedVariant
from kernelworks_build.progress import Progress
from kernelworks_build.source import copy_files, git_state
from kernelworks_build.toolchain.lock import LockSet, torch_lock
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.units.naming import with_late_names
from kernelworks_build.units.slim import with_slim_headers
from kernelworks_build.units.texts import Texts

__all__ = ["BUILDER", "Job", "Project", "Workplace"]

BUILDER = f"kernel-build {__version__}"

_PROGRAM = {".h", ".json", ".py", ".sh", ".toml"}


@dataclass(frozen=True)
class Project:
    """What is built.

    Attributes:
        folder: The author's folder.
        manifest: Its manifest.
        files: The declared files, relative to the folder: all that a build can see.
        tree: A sealed copy of them, which is what is built: edits meanwhile do not matter.
        source: The digest of that copy, and the state of git.
    """

    folder: Path
    manifest: Manifest
    files: tuple[str, ...]
    tree: Tree
    source: Source

    @classmethod
    def read(cls, folder: Path, manifest: Manifest, store: TreeStore) -> Project:
        """The project in `folder` as it is now.

        Raises:
            ManifestError: Its manifest is not the one that was read before.
        """
        files = source_files(manifest, folder)
        tree = store.add(lambda into: copy_files(folder, files, into))
        if parse_manifest((tree.path / MANIFEST).read_bytes(), MANIFEST)[0] != manifest:
            raise ManifestError(f"`{folder / MANIFEST}` was changed meanwhile", hint="run the command again")
        return cls(folder, manifest, files, tree, git_state(folder, files, tree.digest))

    @cached_property
    def texts(self) -> Texts:
        """What is in that copy."""
        return Texts.below(self.tree.path)


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
        unit_cache: Whether units that were compiled before are taken as they are.
        shared: Other caches, of which downloads and trees are used; nothing is written there.
    """

    cache: Path
    locks: LockSet
    executor: Executor
    progress: Progress
    logs: Path
    jobs: int | None = None
    unit_cache: bool = True
    shared: tuple[Path, ...] = ()

    @property
    def store(self) -> TreeStore:
        """The trees in the caches."""
        return TreeStore(self.cache / "trees", self.progress, (other / "trees" for other in self.shared))

    def result_of(self, action: Action, fill: Callable[[Path], None]) -> Path:
        """The folder in the cache of what `action` makes here; `fill` makes it in an empty one where there is none."""
        results = ResultCache(self.cache / "actions", self.progress)
        return results.get_or_make(action_key(action, self.executor.name), fill)

    def keep_log(self, log: Path, name: str) -> Path:
        """The copy of `log` that stays, as `name`."""
        self.logs.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(log, self.logs / name))


@dataclass(frozen=True)
class Job:
    """One variant of a project, lowered: everything that is known before anything runs.

    Attributes:
        spec: The compile and link lines; None where nothing is compiled.
        wheel_tag: Platform tag of its wheel.
    """

    project: Project
    planned: PlannedVariant
    claims: Claims
    spec: CompileSpec | None
    wheel_tag: str

    @classmethod
    def of(cls, project: Project, planned: PlannedVariant, matrix: Matrix) -> Job:
        """The job that makes `planned`."""
        package, backend = project.manifest.python_name, planned.backend.kind
        ident = build_id(package, backend, planned.name, project.source.digest)
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
        if not planned.trees:
            return cls(project, planned, claims, None, "any")
        spec = compile_spec(project.manifest, planned, matrix.backends[backend], ident)
        slim = project.manifest.tool.kernelworks.slim_headers
        if slim and planned.against and planned.framework.kind == "torch":
            spec = with_slim_headers(spec, project.texts, planned.against.mount)
        return cls(project, planned, claims, with_late_names(spec, project.texts), matrix.wheel_tag)

    def key(self, workplace: Workplace) -> str:
        """Digest of everything that decides the bytes of the wheel and the verdict of the audit."""
        locks = workplace.locks
        torch = {name: locks.symbol_list(name) for name in map(torch_lock, self.planned.torch_releases)}
        lists = torch | locks.symbol_lists(self.planned.trees)
        return hash_bytes(
            canonical_json(
                {
                    "program": _own_digest(),
                    "claims": self.claims.to_json(),
                    "executor": workplace.executor.name,
                    "locks": locks.digests(self.planned.locks),
                    "source": self.project.source.digest,
                    "spec": hash_bytes(self.spec.to_bytes()) if self.spec else None,
                    "symbols": {name: hash_file(path)[1] for name, path in lists.items()},
                }
            )
        )


@cache
def _own_digest() -> str:
    """Digest of the program itself, so that a changed one never serves what another made."""
    roots = {package.__name__: Path(package.__file__ or "").parent for package in (kernelworks, kernelworks_build)}
    own = {
        f"{name}/{path.relative_to(root).as_posix()}": path
        for name, root in roots.items()
        for path in root.rglob("*")
        if path.suffix in _PROGRAM
    }
    own[resources.CMAKE_LISTS.name] = resources.CMAKE_LISTS
    return tree_digest(FileEntry(name, *hash_file(path)) for name, path in own.items())
