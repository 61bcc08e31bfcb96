"""What libraries export that no build links: the list beside the lock of the toolchain that they come with."""

from __future__ import annotations

import gzip
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import BinaryIO, TypeVar

from elftools.elf.elffile import ELFFile

__all__ = ["SymbolList", "exported", "symbols", "write_symbols"]

_Name = TypeVar("_Name")

_SYMBOL = struct.Struct("<IBBHQQ")  # ELF64: name's offset, binding and type, visibility, section, value, size
_NOWHERE = (0, 0xFFF1)  # sections of what others must bring, and of the names of symbol versions


class SymbolList(AbstractSet[str]):
    """The names in a sorted text, one a line. They are looked up there: of a hundred thousand, few are asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __contains__(self, name: object) -> bool:
        start = bisect_left(range(len(self._text)), str(name), key=self._line_at)
        return self._text.startswith(f"{name}\n", start)

    def __iter__(self) -> Iterator[str]:
        return iter(self._text.splitlines())

    def __len__(self) -> int:
        return self._text.count("\n")

    @classmethod
    def _from_iterable(cls, names: Iterable[_Name]) -> frozenset[_Name]:
        """What `Set` makes its unions and differences of."""
        return frozenset(names)

    def _line_at(self, offset: int) -> str:
        return self._text[self._text.rfind("\n", 0, offset) + 1 : self._text.find("\n", offset)]


@cache
def symbols(path: Path) -> SymbolList:
    """The mangled names in the list at `path`."""
    return SymbolList(gzip.decompress(path.read_bytes()).decode())


def write_symbols(path: Path, names: Iterable[str]) -> None:
    """Write the list of `names` to `path`: equal names are equal bytes."""
    text = "".join(f"{name}\n" for name in sorted(set(names)))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def exported(library: BinaryIO) -> set[str]:
    """Names that the ELF file `library` defines for others: global, weak and unique ones."""
    elf = ELFFile(library)
    names = elf.get_section_by_name(".dynstr").data()
    table = _SYMBOL.iter_unpack(elf.get_section_by_name(".dynsym").data())
    starts = (start for start, info, _, section, _, _ in table if section not in _NOWHERE and info >> 4)
    return {names[start : names.index(b"\0", start)].decode() for start in starts}
