"""The sources of a variant in its compiler's language: CUDA becomes HIP, by the hipify of the torch it is built for.

It is an action of its own. Its result is kept by what it was made of and compiled in place of the author's files, under
the same paths and with the same lines. The author's files stay what a wheel records.
"""

from __future__ import annotations

from pathlib import Path

from kernelworks_build.action import BUILD, Action, ActionResult, Limits, Mount, Tree
from kernelworks_build.errors import CompileError
from kernelworks_build.job import Job, Workplace
from kernelworks_build.matrix import Matrix
from kernelworks_build.scratch import scratch
from kernelworks_build.suffixes import HEADER_SUFFIXES, HOST_SUFFIXES
from kernelworks_build.toolchain import hipify
from kernelworks_build.toolchain.tree import digest_of
from kernelworks_build.trees import locked_tree, make_trees

__all__ = ["source_tree", "translation_of"]

_SOURCE, _TRANSLATED = "/src", "source"
_LIMITS = Limits(memory_bytes=2 << 30, wall_seconds=600)


def source_tree(job: Job, workplace: Workplace) -> Tree:
    """The files that are compiled: those of the project, translated where the plan says so.

    Raises:
        ToolchainError, SandboxError: As their names say.
        CompileError: A file cannot be translated.
    """
    action = translation_of(job, workplace)
    if action is None:
        return job.project.tree

    def fill(entry: Path) -> None:
        make_trees(job.planned.translation, workplace)
        with scratch(workplace.cache / "work") as work:
            build_dir = work / "build"
            build_dir.mkdir()
            with workplace.progress.task(f"translate the sources of {job.planned.name}", None, "files"):
                result = workplace.executor.run(action, build_dir, work / "log")
            if result.exit_code != 0 or result.missing_outputs:
                raise _failure(job, workplace, result)
            (build_dir / _TRANSLATED).rename(entry / _TRANSLATED)

    made = workplace.result_of(action, fill) / _TRANSLATED
    return Tree(digest_of(made), made)


def translation_of(job: Job, workplace: Workplace) -> Action | None:
    """The action that translates the sources of `job`, where the plan says so; its trees may still have to be made.

    Raises:
        ToolchainError: A tree has no lock.
    """
    places = job.planned.translation
    if not places:
        return None
    row = Matrix.load().backends[job.planned.backend.kind]
    suffixes = HOST_SUFFIXES.union(HEADER_SUFFIXES, row.translated_suffixes)
    mounts = [Mount(place, locked_tree(name, workplace)) for name, place in places.items()]
    return Action(
        argv=hipify.command("sources", _SOURCE, f"{BUILD}/{_TRANSLATED}", suffixes),
        env=tuple(sorted(hipify.environment(hipify.TORCH).items())),
        mounts=tuple(sorted([*mounts, Mount(_SOURCE, job.project.tree)], key=lambda mount: mount.target)),
        outputs=(_TRANSLATED,),
        limits=_LIMITS,
    )


def _failure(job: Job, workplace: Workplace, result: ActionResult) -> CompileError:
    """The error of a translation that failed; its log is kept."""
    log = workplace.keep_log(result.log, f"{job.planned.name}.translation.log")
    said = log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
    return CompileError(
        f"the sources of `{job.planned.name}` cannot be translated: {said or 'hipify said nothing'}",
        hint=f"the whole log is `{log}`",
        variant=job.planned.name,
        exit_code=result.exit_code,
        log=log,
    )
