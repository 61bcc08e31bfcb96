"""What an editor is told of a variant: `compile_commands.json` (JSON Compilation Database), for clang's parser.

Paths are those on this machine: of the project, and of the locked trees in the cache. A source that is translated
before it is compiled is the translated one there, as clang cannot read it otherwise. Only what decides how a source is
read is kept of a command, for editors know neither gcc's nor nvcc's other flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from kernelworks_build.action import Action
from kernelworks_build.compile import CompileSpec
from kernelworks_build.matrix import BackendRow
from kernelworks_build.toolchain.sysroot import ROOT

__all__ = ["compile_commands"]

_SINGLE = ("-std=", "-D", "-I")
_PAIRED = {"-isystem", "-include"}
_HEAD = (
    *("clang++", f"--sysroot={ROOT}", "-nostdinc++"),
    *("-isystem", "/usr/include/c++/12", "-isystem", "/usr/include/x86_64-linux-gnu/c++/12"),
)


def compile_commands(spec: CompileSpec, action: Action, project: Path, row: BackendRow) -> list[dict[str, Any]]:
    """One entry for each translation unit of `spec`, which `action` compiles for the backend `row`."""
    compiled = {mount.target: str(mount.tree.path) for mount in action.mounts}
    written = compiled | {"/src": str(project)}
    return [
        _entry(unit, project, row, compiled if unit["source"].endswith(row.translated_suffixes) else written)
        for unit in spec.document["units"]
    ]


def _entry(unit: Mapping[str, Any], project: Path, row: BackendRow, places: Mapping[str, str]) -> dict[str, Any]:
    """That of `unit`, where `places` are the folders on this machine of those in the sandbox."""
    words = (*_HEAD, *_language(unit["source"], row), *_kept(unit["command"]), unit["source"])
    return {
        "directory": str(project),
        "file": _moved(unit["source"], places),
        "output": unit["object"],
        "arguments": [_moved(word, places) for word in words],
    }


def _language(source: str, row: BackendRow) -> Sequence[str]:
    return row.editor_flags if PurePosixPath(source).suffix in row.device_suffixes else ()


def _kept(command: Sequence[str]) -> Iterator[str]:
    for position, argument in enumerate(command):
        if argument in _PAIRED:
            yield from command[position : position + 2]
        elif argument.startswith(_SINGLE):
            yield argument


def _moved(argument: str, places: Mapping[str, str]) -> str:
    """`argument`, in which a path inside the sandbox becomes that on this machine."""
    targets = "|".join(map(re.escape, sorted(places, key=len, reverse=True)))
    found = re.match(rf"(-I|-[\w-]+=|)({targets})(?=/|$)", argument)
    return f"{found[1]}{places[found[2]]}{argument[found.end() :]}" if found else argument
