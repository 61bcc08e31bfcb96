"""What pydantic finds, in the words of a kernel author."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from kernelworks_build.manifest.backends import COMPONENTS, Component, UndecidedComponent
from kernelworks_build.manifest.diagnostics import Fault, cut, propose, show
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.editions import former_key
from kernelworks_build.manifest.grammar import REFUSED
from kernelworks_build.manifest.model import Manifest
from kernelworks_build.manifest.positions import DocumentPath
from kernelworks_build.manifest.table import Table

__all__ = ["faults_of", "unknown_table"]

_FORMS: dict[str | int, type[Table]] = {f"<{backend}>": form for backend, form in COMPONENTS.items()}
_FORMS["<undecided>"] = UndecidedComponent

_EXPECTED = {
    "dict_type": "a table",
    "int_type": "a whole number",
    "model_type": "a table",
    "string_type": "text in quotes",
    "tuple_type": "a list in square brackets",
}


@dataclass(frozen=True)
class _Finding:
    """One error of pydantic: kind, path in the document and in the file, table that it is in, value and details."""

    kind: str
    path: DocumentPath
    own: DocumentPath
    of_key: bool
    table: type[Table]
    value: Any
    details: dict[str, Any]

    @property
    def key(self) -> str:
        return str(self.path[-1])

    @property
    def where(self) -> str:
        """The path as it would be written: `kernel.relu.src[0]`."""
        written = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.own)
        return show(written.removeprefix("."))


def faults_of(error: ValidationError, document: Document) -> Iterator[Fault]:
    """Every fault that `error` holds."""
    for item in error.errors(include_url=False):
        if item["type"] == "too_short" and item["input"]:
            continue  # pydantic counts the elements that are valid; each of the others has its own error
        path, table = _resolve(item["loc"], document)
        yield _WORDS[item["type"]](
            _Finding(
                kind=item["type"],
                path=path,
                own=document.own(path),
                of_key=item["loc"][-1:] == ("[key]",),
                table=table,
                value=item["input"],
                details=item.get("ctx", {}),
            )
        )


def _resolve(location: tuple[str | int, ...], document: Document) -> tuple[DocumentPath, type[Table]]:
    """The path in the document and the innermost table; forms of a union and `[key]` are in no path."""
    path: DocumentPath = ()
    table: type[Table] = Manifest
    for part in location:
        if str(part).startswith(("<", "[")):
            table = _FORMS.get(part, table)
        else:
            table = table.below(str(part)) or table
            path = (*path, document.spelling(path, part))
    return path, table


def _refused(finding: _Finding) -> Fault:
    at = "key" if finding.of_key else "value"
    details = finding.details
    return Fault("bad-value", finding.path, details["what"], details["hint"], at=at)  # type: ignore[arg-type]


def unknown_table(key: str) -> Fault:
    """That the manifest has no table `key`."""
    what = f"{show(key)} is not a table of a manifest"
    return Fault("unknown-table", (key,), what, propose(key, Manifest.key_examples()), at="key")


def _unknown_key(finding: _Finding) -> Fault:
    if len(finding.path) == 1:
        return unknown_table(finding.key)
    owners = [backend for backend, form in COMPONENTS.items() if finding.key in form.key_examples()]
    if former := former_key(finding.path):
        hint = former
    elif owners and issubclass(finding.table, Component):
        hint = f'it belongs in a component with `backend = "{owners[0]}"`'
    else:
        hint = propose(finding.key, finding.table.key_examples())
    what = f"{show(finding.key)} is not a key of {_table_name(finding.own[:-1])}"
    return Fault("former-key" if former else "unknown-key", finding.path, what, hint, at="key")


def _missing_key(finding: _Finding) -> Fault:
    table = _table_name(finding.own[:-1])
    example = finding.table.key_examples().get(finding.key)
    hint = f"add `{finding.key} = {example}`" if example else f"add a table `[{finding.key}]`"
    return Fault("missing-key", finding.path[:-1], f"{table} lacks the key `{finding.key}`", hint, at="key")


def _empty_list(finding: _Finding) -> Fault:
    example = finding.table.key_examples().get(finding.key)
    return Fault("empty-list", finding.path, f"{finding.where} is empty", f"list at least one, as in `{example}`")


def _wrong_type(finding: _Finding) -> Fault:
    value = finding.value
    hint = None
    if finding.kind == "int_type" and (number := re.fullmatch(r"\s*([0-9]+)[0-9.]*\s*", str(value))):
        hint = f"write a whole number without quotes: `{number[1]}`"
    elif finding.kind == "string_type" and isinstance(value, int | Decimal):
        hint = f'write it in quotes: `"{_toml(value)}"`'
    elif finding.kind == "tuple_type" and isinstance(value, str):
        hint = f"write `[{_toml(value)}]`"
    elif finding.kind == "model_type" and all(isinstance(part, str) for part in finding.path):
        hint = f"write its keys below a header {_table_name(finding.own)}"
    what = f"{finding.where} must be {_EXPECTED[finding.kind]}, not {_found(value)}"
    return Fault("wrong-type", finding.path, what, hint)


def _found(value: Any) -> str:
    kinds: dict[type, str] = {bool: "", int: "the number ", Decimal: "the number ", str: "the text "}
    if type(value) in kinds:
        return f"{kinds[type(value)]}`{_toml(value)}`"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return "a date or time"


def _toml(value: str | int | Decimal) -> str:
    return cut(json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value))


def _table_name(path: DocumentPath) -> str:
    keys = [str(part) for part in path if isinstance(part, str)]
    return show(f"[{'.'.join(keys)}]") if keys else "the manifest"


_WORDS: dict[str, Callable[[_Finding], Fault]] = {
    REFUSED: _refused,
    "extra_forbidden": _unknown_key,
    "missing": _missing_key,
    "too_short": _empty_list,
    **dict.fromkeys(_EXPECTED, _wrong_type),
}
