"""Which units are tried with the slim headers of torch: a verdict over the text of all that a unit includes.

A name that slim headers lack ends the compile, and the whole headers are taken. What would compile and mean something
else is refused here, before anything runs: see docs/adr for where that can be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from kernelworks_build import resources
from kernelworks_build.compile import CompileSpec
from kernelworks_build.toml import read_toml
from kernelworks_build.units import directives
from kernelworks_build.units.reads import macro
from kernelworks_build.units.texts import own_files, reached

__all__ = ["FOLDER", "slim_set", "with_slim_headers"]

FOLDER = "/opt/kernelworks/slim"
"""Where the sandbox has the slim headers, a folder for each set."""

_QUALIFIED = re.compile(rb"\btorch\s*::\s*(\w+)")
_EITHER = re.compile(rb"\b(?:at|torch)\s*::\s*(\w+)")
_OPENED = re.compile(rb"\bnamespace\s+(?:\w+\s*=\s*)?(?:::\s*)?(?:at|c10|torch)\b")
_RESERVED = re.compile(r"_[_A-Z]")


@dataclass(frozen=True)
class _Rules:
    """What slim.toml says, as regular expressions."""

    headers: re.Pattern[str]
    conditions: re.Pattern[str]
    refused: re.Pattern[str]
    names: Mapping[str, re.Pattern[str]]

    @classmethod
    @cache
    def load(cls) -> _Rules:
        document = read_toml(resources.SLIM_RULES)
        names = {name: _any(patterns) for name, patterns in document["names"].items()}
        return cls(_any(document["headers"]), _any(document["conditions"]), _any(document["refused"]), names)


def with_slim_headers(spec: CompileSpec, source: Path) -> CompileSpec:
    """`spec`, whose units are tried with slim headers where the files in `source` allow it."""
    files = own_files(source)
    changed = [_slimmed(unit, files) for unit in spec.document["units"]]
    return replace(spec, document={**spec.document, "units": changed})


def slim_set(texts: list[bytes], macros: set[str]) -> str | None:
    """The slim set that serves a unit of these `texts`, compiled with `macros`; None: the whole headers."""
    rules = _Rules.load()
    code = [directives.without_comments(text) for text in texts]
    included = set().union(*map(directives.includes, code))
    known = macros.union(*map(directives.definitions, code))
    asked = set().union(*map(directives.conditions, code)) - known
    if (
        not any(map(rules.headers.fullmatch, included))
        or any(not _RESERVED.match(name) and not rules.conditions.fullmatch(name) for name in asked)
        or any(_OPENED.search(text) for text in code)
        or any(rules.refused.fullmatch(name) for text in code for name in directives.tokens(text))
    ):
        return None
    return _set_for(code, rules)


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


def _slimmed(unit: dict[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    texts = list(reached(unit, files))
    chosen = slim_set(texts, {name for word in unit["command"] if (name := macro(word))})
    if chosen is None:
        return unit
    command = list(unit["command"])
    command.insert(command.index("-isystem"), f"-I{FOLDER}/{chosen}")
    return {**unit, "command": command, "slim": f"{FOLDER}/{chosen}"}


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
