"""The variants of an index as a table: frameworks down, backends and platforms across."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kernelworks.backends import registered
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi, Variant
from kernelworks.model.variant_name import Version2, format_version

__all__ = [
    "Column",
    "Matrix",
    "Row",
    "backend_label",
    "backend_order",
    "framework_label",
    "framework_order",
    "matrix",
    "python_label",
]

_MOST = 200  # variants of one table: rows times columns is what a browser must lay out
_FRAMEWORKS = ("torch", "torch-stable-abi", "tvm-ffi", "none")
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "windows": "Windows"}

_RowKey = tuple[str, Version2 | None, bool | None]
_ColumnKey = tuple[str, Version2 | None, str | None, str | None]


@dataclass(frozen=True)
class Column:
    """One backend with its toolkit on one platform."""

    backend: str
    platform: str


@dataclass(frozen=True)
class Row:
    """One framework ABI, and the variants for it in the order of the columns."""

    framework: str
    detail: str
    cells: tuple[tuple[Variant, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """A table of variants.

    Attributes:
        backends: (label, how many columns it spans).
        columns: All columns.
        rows: All rows.
        left_out: Variants that the table has no room for.
    """

    backends: tuple[tuple[str, int], ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    left_out: int


def matrix(variants: Sequence[Variant]) -> Matrix:
    """The table of `variants`, newest framework and toolkit first."""
    cells: dict[tuple[_RowKey, _ColumnKey], list[Variant]] = defaultdict(list)
    for variant in variants[:_MOST]:
        cells[_row_key(variant), _column_key(variant)].append(variant)
    across = sorted({column for _, column in cells}, key=_column_order)
    down = sorted({row for row, _ in cells}, key=lambda key: framework_order(FrameworkFacts(*key)))
    columns = tuple(
        Column(backend_label(BackendFacts(kind, version)), _platform_label(Platform(cpu, os, None)))
        for kind, version, cpu, os in across
    )
    return Matrix(
        backends=tuple((label, len(list(group))) for label, group in groupby(column.backend for column in columns)),
        columns=columns,
        rows=tuple(
            Row(*framework_label(FrameworkFacts(*row)), tuple(tuple(cells.get((row, column), ())) for column in across))
            for row in down
        ),
        left_out=max(0, len(variants) - _MOST),
    )


def framework_label(framework: FrameworkFacts) -> tuple[str, str]:
    """(`torch 2.13`, `C++11 ABI`): the framework, and what else must agree."""
    version = format_version(framework.version) if framework.version else ""
    words: Mapping[str, tuple[str, str]] = {
        "torch": (f"torch {version}", ""),
        "torch-stable-abi": (f"torch ≥ {version}", "stable ABI"),
        "tvm-ffi": (f"tvm-ffi {version}", ""),
        "none": ("no framework", "any torch"),
    }
    label, detail = words[framework.kind]
    if framework.cxx11 is not None:
        detail = "C++11 ABI" if framework.cxx11 else "older C++ ABI"
    return label, detail


def backend_label(backend: BackendFacts) -> str:
    """`CUDA 13.0`, `CPU`: the backend as people write it, with its toolkit."""
    spec = registered().get(backend.kind)
    label = spec.label if spec else backend.kind
    return f"{label} {format_version(backend.version)}" if backend.version else label


def python_label(python: PythonAbi) -> str:
    """Which Pythons the variant loads in, or nothing where all do."""
    if python.version is None:
        return ""
    return f"Python {'≥ ' if python.kind == 'abi3' else ''}{format_version(python.version)}"


def _platform_label(platform: Platform) -> str:
    system = _SYSTEMS.get(platform.os or "", platform.os)
    return " ".join(part for part in (system, platform.cpu) if part) or "any platform"


def _row_key(variant: Variant) -> _RowKey:
    framework = variant.framework
    return framework.kind, framework.version, framework.cxx11


def _column_key(variant: Variant) -> _ColumnKey:
    return variant.backend.kind, variant.backend.version, variant.platform.cpu, variant.platform.os


def framework_order(framework: FrameworkFacts) -> tuple[int, int, int, bool]:
    """Sorts as the rows do: exact torch before stable ABI, the newest first."""
    return (_FRAMEWORKS.index(framework.kind), *_newest_first(framework.version), framework.cxx11 is False)


def backend_order(backend: BackendFacts) -> tuple[int, str, int, int]:
    """Sorts as the columns do: the backend that loaders prefer first, of each the newest toolkit."""
    spec = registered().get(backend.kind)
    return (-spec.rank if spec else 1, backend.kind, *_newest_first(backend.version))


def _column_order(key: _ColumnKey) -> tuple[int, str, int, int, str, str]:
    kind, version, cpu, os = key
    return (*backend_order(BackendFacts(kind, version)), os or "", cpu or "")


def _newest_first(version: Version2 | None) -> tuple[int, int]:
    return (-version[0], -version[1]) if version else (1, 0)
