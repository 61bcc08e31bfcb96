"""File name tag (PEP 3149) and imported Python symbols (PEP 384) are those of the claimed Python ABI."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from abi3info import DATAS, FUNCTIONS

from kernelworks.model.variant import PythonAbi
from kernelworks.model.variant_name import Version2, format_version
from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good

__all__ = ["RULE"]


def check(case: Case) -> Iterator[Finding]:
    claimed = case.claims.python_abi
    for elf in case.facts.elfs:
        tag, expected = elf.path.partition(".")[2], _tag(claimed, elf.machine)
        wrong = tag != expected
        yield Finding(not wrong, f"tag `{tag}`" + (f", claimed is `{expected}`" if wrong else ""), elf.path)
        names = case.imports(elf).python
        yield good(f"imports {', '.join(names) or 'no Python symbol'}", elf.path)
        for name in names:
            if fault := _fault(claimed, name):
                yield bad(fault, elf.path)


def _tag(abi: PythonAbi, machine: str) -> str:
    if abi.version and abi.kind == "exact":
        return f"cpython-{abi.version[0]}{abi.version[1]}-{machine}-linux-gnu.so"
    return "abi3.so" if abi.kind == "abi3" else "so"


def _fault(abi: PythonAbi, name: str) -> str | None:
    """Why a binary of `abi` must not import `name`, or None where it may."""
    if abi.version is None:
        return f"imports `{name}`, claimed is no Python ABI"
    if abi.kind == "exact":
        return None
    added = _stable_abi().get(name)
    if added is None:
        return f"imports `{name}`, which is not in the stable ABI"
    if added > abi.version:
        since, floor = format_version(added), format_version(abi.version)
        return f"imports `{name}`, in the stable ABI since {since}; claimed is {floor}"
    return None


@cache
def _stable_abi() -> dict[str, Version2]:
    """Every symbol of the stable ABI with the CPython that it came with."""
    return {
        symbol.name: (entry.added.major, entry.added.minor)
        for table in (FUNCTIONS, DATAS)
        for symbol, entry in table.items()
    }


RULE = Rule("python-abi", "file name and imported Python symbols keep the claimed Python ABI", check)
