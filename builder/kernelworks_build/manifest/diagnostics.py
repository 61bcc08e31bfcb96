"""What is wrong with a manifest, where, and what to do: by document path, then by line and column."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kernelworks_build.manifest.positions import DocumentPath, Positions

__all__ = ["Diagnostic", "Fault", "Severity", "count", "cut", "nearest", "propose", "show"]

Severity = Literal["error", "warning"]

_SHOWN = 100


@dataclass(frozen=True)
class Fault:
    """Something wrong at a path of the document, before it has a line.

    Attributes:
        code: What kind of fault it is: `missing-key`.
        path: The key or value.
        what: What is wrong; lower-case start.
        hint: What to do, or None.
        severity: `error`: nothing is built; `warning`: it is said and built.
        at: Whether the key or its value is to be pointed at.
    """

    code: str
    path: DocumentPath
    what: str
    hint: str | None = None
    severity: Severity = "error"
    at: Literal["key", "value"] = "value"


@dataclass(frozen=True)
class Diagnostic:
    """One fault of one file. Line and column count characters from 1."""

    file: str
    line: int
    column: int
    severity: Severity
    code: str
    what: str
    hint: str | None = None

    @classmethod
    def of(cls, fault: Fault, positions: Positions, file: str) -> Diagnostic:
        """`fault` at its place in `file`."""
        place = positions.key(fault.path) if fault.at == "key" else positions.value(fault.path)
        return cls(file, *place, fault.severity, fault.code, fault.what, fault.hint)

    @property
    def place(self) -> tuple[int, int, str]:
        """What diagnostics of one file are sorted by."""
        return self.line, self.column, self.what

    def __str__(self) -> str:
        mark = "warning: " if self.severity == "warning" else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.file}:{self.line}:{self.column}: {mark}{self.what}{hint}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def count(diagnostics: Sequence[Diagnostic]) -> str:
    """How many errors and warnings there are: `2 errors, 1 warning`."""
    totals = Counter(diagnostic.severity for diagnostic in diagnostics)
    found = [f"{total} {severity}{'s' if total > 1 else ''}" for severity, total in sorted(totals.items())]
    return ", ".join(found) or "no fault"


def show(value: str) -> str:
    """`value` in backticks, escaped and cut so that it stays on one line."""
    if not value:
        return "an empty text"
    short = cut(value)
    return f"`{short if short.isprintable() else repr(short)[1:-1]}`"


def cut(text: str) -> str:
    """`text`, or its start where it is too long for a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def nearest(word: str, known: Collection[str]) -> str | None:
    """The one of `known` that `word` most likely means, or None."""
    by_folded = {name.casefold().replace("_", "-"): name for name in known}
    near = difflib.get_close_matches(word.casefold().replace("_", "-"), by_folded, 1)
    return by_folded[near[0]] if near else None


def propose(word: str, known: Collection[str]) -> str:
    """A hint: the one of `known` that `word` most likely means, else all of them."""
    if near := nearest(word, known):
        return f"did you mean `{near}`?"
    return f"known: {', '.join(sorted(known))}" if known else "none is known"
