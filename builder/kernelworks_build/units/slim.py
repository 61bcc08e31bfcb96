"""Which units are tried with the slim headers of torch: a verdict over the text of all that a unit includes.

A name that slim headers lack ends the compile, and the whole headers are taken. What would compile and mean something
else is refused here, before anything runs: see docs/adr for where that can be. What only the toolchain can tell, which
need not be there yet, becomes a question to it: whether one of its headers defines a macro that decides a condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from posixpath import dirname
from typing import Any

from kernelworks_build import resources
from kernelworks_build.compile import CompileSpec
from kernelworks_build.toml import read_toml
from kernelworks_build.toolchain.sysroot import ROOT
from kernelworks_build.units import directives
from kernelworks_build.units.texts import Texts

__all__ = ["FOLDER", "deciding_macros", "slim_set", "with_slim_headers"]

FOLDER = "/opt/kernelworks/slim"
"""Where the sandbox has the slim headers, a folder for each set."""

_QUALIFIED = re.compile(rb"\btorch\s*::\s*(\w+)")
_EITHER = re.compile(rb"\b(?:at|torch)\s*::\s*(\w+)")
_OPENED = re.compile(rb"\bnamespace\s+(?:\w+\s*=\s*)?(?:::\s*)?(?:at|c10|torch)\b")
_SYSTEM = ("/usr", ROOT)


@dataclass(frozen=True)
class _Rules:
    """What slim.toml says, as regular expressions."""

    headers: re.Pattern[str]
    conditions: re.Pattern[str]
    refused: re.Pattern[bytes]
    names: Mapping[str, re.Pattern[str]]

    @classmethod
    @cache
    def load(cls) -> _Rules:
        document = read_toml(resources.SLIM_RULES)
        names = {name: _any(patterns) for name, patterns in document["names"].items()}
        refused = re.compile(rf"\b(?:{_any(document['refused']).pattern})\b".encode())
        return cls(_any(document["headers"]), _any(document["conditions"]), refused, names)


def with_slim_headers(spec: CompileSpec, texts: Texts, torch: str) -> CompileSpec:
    """`spec`, whose units are tried with slim headers where `texts` allow it; `torch` is where the sandbox has it."""
    changed = [_slimmed(unit, texts, torch) for unit in spec.document["units"]]
    return replace(spec, document={**spec.document, "units": changed})


def deciding_macros(code: list[bytes]) -> set[str] | None:
    """The macros that decide the conditions of `code`, but for those that mean the same with slim headers.

    They stand in a condition, or in the definition of one that a condition expands. None: no text names them all.
    """
    meanings: dict[str, list[bytes]] = {}
    for name, meaning in (each for text in code for each in directives.definitions(text)):
        meanings.setdefault(name, []).append(meaning)
    expanded = set().union(*map(directives.expansions, code))
    waiting = list(expanded)
    while waiting:
        for meaning in meanings.get(waiting.pop(), ()):
            if directives.pastes(meaning):
                return None
            new = set(directives.tokens(meaning)) - expanded
            expanded |= new
            waiting += new
    asked = expanded.union(*map(directives.conditions, code))
    return {name for name in asked if not _Rules.load().conditions.fullmatch(name)}


def slim_set(code: list[bytes]) -> str | None:
    """The slim set that serves a unit of this `code`, where no header decides its conditions; None: the whole ones."""
    rules = _Rules.load()
    if (
        not any(map(_has_a_slim_form, code))
        or any(map(directives.computes_includes, code))
        or any(map(_OPENED.search, code))
        or any(map(rules.refused.search, code))
    ):
        return None
    return _set_for(code, rules)


@cache  # all that most units are asked, and many of the same texts
def _has_a_slim_form(code: bytes) -> bool:
    """Whether it includes a header that has one."""
    return any(map(_Rules.load().headers.fullmatch, directives.includes(code)))


def _set_for(code: list[bytes], rules: _Rules) -> str | None:
    """The first set that has, with those before it, every `torch::` name; later sets hold `at::` names as well."""
    names = {name.decode() for text in code for name in _QUALIFIED.findall(text)}
    either = {name.decode() for text in code for name in _EITHER.findall(text)}
    chosen = None
    for name, pattern in rules.names.items():
        if chosen is None or any(map(pattern.fullmatch, either)):
            chosen = name
        names = {one for one in names if not pattern.fullmatch(one)}
    return None if names else chosen


def _slimmed(unit: dict[str, Any], texts: Texts, torch: str) -> dict[str, Any]:
    command = list(unit["command"])
    code = [text.code for text in texts.reached(unit)]
    chosen = slim_set(code)
    macros = deciding_macros([*code, _definitions(command)]) if chosen else None
    if macros is None:
        return unit
    folder, compilers = f"{FOLDER}/{chosen}", dirname(dirname(command[0]))
    command.insert(command.index("-isystem"), f"-I{folder}")
    question = {"macros": sorted(macros), "trees": sorted({*_SYSTEM, torch, compilers})}
    return {**unit, "command": command, "slim": {"folder": folder, **question}}


def _definitions(command: list[str]) -> bytes:
    """The macros of `command` as code."""
    words = (word.removeprefix("-D").replace("=", " ", 1) for word in command if word.startswith("-D"))
    return "".join(f"#define {word}\n" for word in words).encode()


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
