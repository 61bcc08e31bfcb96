"""What an old shared library exports, as a list of facts, and the assembler and version script of its stub.

A list is a text file below `symbols/`, named by SONAME, one symbol a line: `name@@version kind binding size`
(`@@` is the version that new links bind to, `@` one that only old binaries use).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["LIBRARIES", "Symbol", "assembler", "dump_symbols", "read_symbols", "version_script"]

LIBRARIES = (
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
)
"""SONAMEs of the libraries that a manylinux wheel may lean on and that the sysroot has stubs of."""

_SECTIONS = {"func": ".text", "object": ".bss", "tls": '.section .tbss,"awT",@nobits'}
_TYPES = {"func": "function", "object": "object", "tls": "tls_object"}
_ALIGNMENT = 32  # of every object: enough for any copy relocation


@dataclass(frozen=True, order=True)
class Symbol:
    """One exported symbol.

    Attributes:
        name: As the linker sees it.
        version: Version node: `GLIBC_2.14`.
        default: Whether new links bind to this version of the name.
        kind: `func`, `object` or `tls`.
        binding: `global` or `weak`.
        size: Bytes of an object; 1 for a function, whose stub is one byte.
    """

    name: str
    version: str
    default: bool
    kind: str
    binding: str
    size: int

    @property
    def versioned(self) -> str:
        """Name and version in the assembler's notation: `memcpy@@GLIBC_2.14`."""
        return f"{self.name}{'@@' if self.default else '@'}{self.version}"

    @classmethod
    def parse(cls, line: str) -> Symbol:
        versioned, kind, binding, size = line.split()
        name, _, version = versioned.partition("@")
        return cls(name, version.lstrip("@"), version.startswith("@"), kind, binding, int(size))


def read_symbols(soname: str) -> tuple[Symbol, ...]:
    """The list of the library `soname`, one of `LIBRARIES`."""
    text = files(__package__).joinpath(f"symbols/{soname}.txt").read_text(encoding="utf-8")
    return tuple(map(Symbol.parse, text.splitlines()))


def dump_symbols(symbols: Iterable[Symbol]) -> str:
    """The canonical text of a list: sorted, one symbol a line."""
    return "".join(f"{one.versioned} {one.kind} {one.binding} {one.size}\n" for one in sorted(symbols))


def assembler(symbols: Iterable[Symbol]) -> str:
    """GNU assembler that defines every symbol under its version; functions are one byte, objects whole."""
    lines = []
    for number, one in enumerate(symbols):
        label = f"s{number}"
        lines += [
            _SECTIONS[one.kind],
            f".balign {1 if one.kind == 'func' else _ALIGNMENT}",
            f".{'weak' if one.binding == 'weak' else 'globl'} {label}",
            f".type {label}, @{_TYPES[one.kind]}",
            f".size {label}, {one.size}",
            f"{label}: .skip {one.size}",
            f".symver {label}, {one.versioned}, remove",
        ]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""])


def version_script(symbols: Iterable[Symbol]) -> str:
    """The linker's version script: one node per version; `.symver` says which symbol is in which."""
    return "".join(f"{version} {{ }};\n" for version in sorted({one.version for one in symbols}))
