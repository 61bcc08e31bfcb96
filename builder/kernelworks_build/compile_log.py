"""What went wrong in a compile, read from ninja's log and told in the author's paths."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from kernelworks_build.action import ActionResult
from kernelworks_build.errors import CompileError

__all__ = ["Failure", "compile_error", "failures", "ran_out_of_memory"]

_SHOWN_LINES = 40
_LEADING_LINES = 5
_ERROR = re.compile(r"(:\d+:|\(\d+\):) (fatal )?error:")
_EDGE = re.compile(r"^\[\d+/\d+\] |^ninja: ")
# `/src` where a path starts, not as a part of one
_SOURCES = re.compile(r"""(?:(?<=[\s"']-I)|(?<![^\s"'`(\[<=:,]))/src(?![^\s"'`)\]>=:,;/])""")
_DEPFILE = re.compile(r" && \S*cmake -E cmake_transform_depfile .*")
_SLIM = re.compile(r"\S*sh /opt/kernelworks/slim/compile\.sh (?:\S+ )*?-- (?:\S+ )*?-- ")
_CLIMB = re.compile(r"""/(?!\.\.?/)[^/\s"':]+/\.\.(?=/)""")
_UNSTABLE = re.compile(r"#error .*TORCH_(STABLE_ONLY|TARGET_VERSION)")
_NO_MEMORY = re.compile(
    r"^Killed$|Killed signal terminated program|died due to signal 9|out of memory allocating|virtual memory exhausted"
    r"|Memory allocation failure",
    re.MULTILINE,
)
_ONLY_STABLE = "this kernel targets the stable ABI: include only torch/csrc/stable/* and torch/headeronly/*"
_TRANSLATED = "the lines are those of the files, their CUDA names were translated into those of HIP"
_MISSING = re.compile(r"fatal error: ([^:\s]+): No such file or directory")


@dataclass(frozen=True)
class Failure:
    """One command that failed: what it was to make, the command, and what it printed."""

    target: str
    command: str
    output: str


def failures(log: str) -> tuple[Failure, ...]:
    """The failed commands in a log of ninja, in order."""
    found = []
    lines = log.splitlines()
    for start, line in enumerate(lines):
        if not line.startswith("FAILED: "):
            continue
        rest = lines[start + 1 :]
        end = next((at for at, text in enumerate(rest) if _EDGE.match(text)), len(rest))
        target = re.sub(r"^FAILED: (\[code=-?\d+\] )?", "", line).strip()
        command = _SLIM.sub("", _DEPFILE.sub("", rest[0].removeprefix("cd /build && "))) if rest else ""
        found.append(Failure(target, command, "\n".join(rest[1:end])))
    return tuple(found)


def compile_error(
    result: ActionResult,
    *,
    variant: str,
    project: Path,
    declared: Collection[str],
    log: Path,
    translated: bool = False,
) -> CompileError:
    """The error for an action that failed.

    Args:
        result: How it ended; its log is read.
        variant: Which variant was compiled.
        project: The author's folder, which stands for `/src` in every message.
        declared: Paths that the manifest lists.
        log: Where the whole log can be read afterwards.
        translated: Whether the compiler saw HIP where the author wrote CUDA.
    """
    text = _in_the_authors_paths(result.log.read_text(encoding="utf-8", errors="replace"), project)
    failed = failures(text)
    shown = "\n\n".join(f"{_head(failure.output)}\ncommand: {failure.command}" for failure in failed) or _head(text)
    hints = [
        *(["pass a smaller `--jobs`"] if ran_out_of_memory(result) else []),
        *([_ONLY_STABLE] if _UNSTABLE.search(text) else []),
        *([_TRANSLATED] if translated else []),
        *_undeclared(text, project, declared),
        f"the whole log is `{log}`",
    ]
    return CompileError(
        f"{_verdict(variant, result)}:\n\n{shown}\n",
        hint="; ".join(hints),
        variant=variant,
        exit_code=result.exit_code,
        log=log,
        failures=[vars(failure) for failure in failed],
    )


def _verdict(variant: str, result: ActionResult) -> str:
    if result.timed_out:
        return f"`{variant}` was not compiled within the time limit"
    if ran_out_of_memory(result):
        return f"compiling `{variant}` needed more memory than the sandbox may use"
    return f"`{variant}` does not compile"


def ran_out_of_memory(result: ActionResult) -> bool:
    """Whether memory ended the action or one of its commands: the sandbox's limit, the system, or the compiler."""
    return result.out_of_memory or bool(_NO_MEMORY.search(result.log.read_text(encoding="utf-8", errors="replace")))


def _in_the_authors_paths(text: str, project: Path) -> str:
    """`text` with `project` for `/src`, and without `..` in the middle of a path."""
    climbs = 1
    while climbs:
        text, climbs = _CLIMB.subn("", text)
    return _SOURCES.sub(lambda _: str(project), text)


def _head(text: str) -> str:
    """The start of `text`; where warnings fill it, its first error with the lines that lead to it."""
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if _ERROR.search(line)), 0)
    start = first - _LEADING_LINES if first >= _SHOWN_LINES else 0
    shown = lines[start : start + _SHOWN_LINES]
    more = len(lines) - len(shown)
    return "\n".join(shown) + (f"\n... {more} more lines in the log" if more > 0 else "")


def _undeclared(text: str, project: Path, declared: Collection[str]) -> list[str]:
    """A header that exists but is not listed in the manifest is invisible to the build: say so."""
    hints = []
    for name in dict.fromkeys(_MISSING.findall(text)):
        there = [path.relative_to(project).as_posix() for path in project.rglob(Path(name).name) if path.is_file()]
        unlisted = sorted(path for path in there if path not in declared and path.endswith(name.lstrip("./")))
        if unlisted:
            hints.append(f"`{unlisted[0]}` exists but is not listed in `src` of build.toml; add it")
    return hints
