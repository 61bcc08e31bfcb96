"""What a shared object says of itself, read before `dlopen`: whether it is whole, what it needs, what it defines.

64-bit little-endian ELF (System V ABI, gABI chapters 4 and 5). No
offset is believed: what leads out of the file is an `ElfError`, never a crash.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from struct import Struct
from struct import error as StructError  # noqa: N812  # it is an exception, and named like a module's
from typing import Any, NamedTuple, TypeVar

from kernelworks.binaries.elf_hash import gnu_candidates, sysv_candidates

__all__ = ["MAGIC", "Elf", "ElfError", "Import", "check", "open_elf"]

MAGIC = b"\x7fELF"
_IDENT = MAGIC + b"\x02\x01\x01"  # 64 bits, little-endian, version 1
_SHARED_OBJECT = 3
_MACHINES = {62: "x86_64", 183: "aarch64"}

_HEADER = Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = Struct("<IIQQQQQQ")
_SECTION = Struct("<IIQQQQIIQQ")
_DYNAMIC = Struct("<qQ")
_SYMBOL = Struct("<IBBHQQ")
_HALF = Struct("<H")

_PT_LOAD, _PT_DYNAMIC = 1, 2
_SHT_NULL, _SHT_NOBITS, _SHT_DYNSYM = 0, 8, 11
_DT_NULL, _DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB = 0, 1, 4, 5, 6
_DT_GNU_HASH, _DT_VERSYM = 0x6FFFFEF5, 0x6FFFFFF0
_STB_LOCAL, _STB_WEAK = 0, 2
_UNDEFINED = 0  # as index of a symbol's section
_NAMED_VERSION = 2  # the indexes below mean "local" and "global"
_VERSION_INDEX = 0x7FFF


class ElfError(Exception):
    """Not a whole shared object: what was expected, and what is there instead, as short phrases."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got


class _Segment(NamedTuple):
    """An entry of the program header table."""

    kind: int
    flags: int
    offset: int
    address: int
    physical_address: int
    size: int
    memory_size: int
    alignment: int


class _Section(NamedTuple):
    """An entry of the section header table."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


_Row = TypeVar("_Row", _Segment, _Section)


@dataclass(frozen=True)
class Import:
    """A symbol that another file must bring.

    Attributes:
        name: Mangled name.
        weak: Whether the file can do without it.
        versioned: Whether a symbol version ties it to one library.
    """

    name: str
    weak: bool
    versioned: bool


def check(source: str | os.PathLike[str] | bytes, cpu: str | None = None) -> None:
    """Return if `source`, a path or the bytes of a file, is a whole shared object that `dlopen` may map.

    Args:
        source: A file cut short would end the process by SIGBUS when its pages are touched.
        cpu: `x86_64` or `aarch64`, the machine that it must be for; None for any.

    Raises:
        ElfError: It is not; `expected` and `got` say why.
        OSError: The file cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        with open_elf(source) as elf:
            found = elf.cpu
    else:
        found = Elf(source).cpu
    if cpu not in (None, found):
        raise ElfError(f"code for {cpu}", f"code for {found}")


@contextmanager
def open_elf(path: str | os.PathLike[str]) -> Iterator[Elf]:
    """The shared object at `path`, mapped for as long as the context lasts.

    Raises:
        ElfError, OSError: As `check`.
    """
    with open(path, "rb") as file:  # noqa: PTH123  # a str is a path too
        if not os.fstat(file.fileno()).st_size:  # nothing, which cannot be mapped
            raise ElfError("an ELF file", "0 bytes")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield Elf(data)


class Elf:
    """One shared object; making it checks that every segment and section lies inside `data`."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        ident = data[: len(_IDENT)]
        if ident[: len(MAGIC)] != MAGIC:
            raise ElfError("an ELF file", f"a file that starts with `{ident[: len(MAGIC)].hex()}`")
        if ident != _IDENT:
            raise ElfError("a 64-bit little-endian ELF file", f"one with the identification `{ident.hex()}`")
        header = self._unpack(_HEADER, 0)
        _, kind, machine, _, _, segments, sections, _, _, segment_size, segment_count, section_size, count, _ = header
        if kind != _SHARED_OBJECT:
            raise ElfError("a shared object", f"an ELF file of type {kind}")
        self.cpu = _MACHINES.get(machine, f"machine {machine}")
        self._segments = self._table("segments", _Segment, _SEGMENT, segments, segment_size, segment_count)
        self._sections = self._table("sections", _Section, _SECTION, sections, section_size, count)
        for segment in self._segments:
            self._inside("a segment", segment.offset, segment.size)
        for section in self._sections:
            if section.kind not in (_SHT_NULL, _SHT_NOBITS):
                self._inside("a section", section.offset, section.size)

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """`DT_NEEDED` in order."""
        return tuple(self._text(value) for tag, value in self._dynamic if tag == _DT_NEEDED)

    def imports(self) -> Iterator[Import]:
        """Every undefined dynamic symbol.

        Raises:
            ElfError: It has no table of them where its dynamic segment says.
        """
        at, versions = self._located(_DT_SYMTAB), self._tag(_DT_VERSYM)
        size = next((item.size for item in self._sections if item.kind == _SHT_DYNSYM and item.offset == at), None)
        if size is None:
            raise ElfError("a section with the dynamic symbols", "none")
        table = self._data[at : at + size - size % _SYMBOL.size]
        for position, (name, info, _, section, _, _) in enumerate(_SYMBOL.iter_unpack(table)):
            if section == _UNDEFINED and info >> 4 != _STB_LOCAL:
                versioned = versions is not None and self._version(versions, position) >= _NAMED_VERSION
                yield Import(self._text(name), info >> 4 == _STB_WEAK, versioned)

    def defined(self, names: Iterable[str]) -> set[str]:
        """Those of `names` that this file exports.

        Raises:
            ElfError: It has no hash table, and so no loader finds anything in it.
        """
        for tag, candidates in ((_DT_GNU_HASH, gnu_candidates), (_DT_HASH, sysv_candidates)):
            if self._tag(tag) is not None:
                table, limit = self._located(tag), len(self._data) // _SYMBOL.size
                return {
                    name
                    for name in names
                    if any(
                        self._defines(index, name.encode())
                        for index in candidates(self._unpack, table, name.encode(), limit)
                    )
                }
        raise ElfError("a hash table of symbols", "none")

    def _defines(self, index: int, name: bytes) -> bool:
        at, _, _, section, _, _ = self._unpack(_SYMBOL, self._symbols + _SYMBOL.size * index)
        start = self._strings + at
        return section != _UNDEFINED and self._data[start : start + len(name) + 1] == name + b"\0"

    def _version(self, table: int, position: int) -> int:
        (version,) = self._unpack(_HALF, self._offset(table) + _HALF.size * position)
        return int(version & _VERSION_INDEX)

    @cached_property
    def _symbols(self) -> int:
        return self._located(_DT_SYMTAB)

    @cached_property
    def _strings(self) -> int:
        return self._located(_DT_STRTAB)

    @cached_property
    def _dynamic(self) -> tuple[tuple[int, int], ...]:
        segment = next((one for one in self._segments if one.kind == _PT_DYNAMIC), None)
        table = self._data[segment.offset : segment.offset + segment.size] if segment else b""
        whole = table[: len(table) - len(table) % _DYNAMIC.size]
        return tuple(takewhile(lambda entry: entry[0] != _DT_NULL, _DYNAMIC.iter_unpack(whole)))

    def _tag(self, tag: int) -> int | None:
        """The value of the first entry `tag` of the dynamic segment."""
        return next((value for found, value in self._dynamic if found == tag), None)

    def _located(self, tag: int) -> int:
        """The offset of what the entry `tag` has the address of."""
        address = self._tag(tag)
        if address is None:
            raise ElfError(f"a dynamic segment with the entry {tag:#x}", "none")
        return self._offset(address)

    def _offset(self, address: int) -> int:
        """Where in the file the byte lies that is loaded to `address`."""
        for segment in self._segments:
            if segment.kind == _PT_LOAD and segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise ElfError("addresses inside the segments", f"the address {address:#x}")

    def _text(self, at: int) -> str:
        start = self._strings + at
        end = self._data.find(b"\0", start)
        if end < 0:
            raise ElfError("names that end", f"one at byte {start} that does not")
        return self._data[start:end].decode("ascii", "backslashreplace")

    def _table(self, what: str, row: type[_Row], form: Struct, offset: int, size: int, count: int) -> list[_Row]:
        if count and size != form.size:
            raise ElfError(f"{form.size} bytes per entry in the table of {what}", str(size))
        self._inside(f"the table of {what}", offset, size * count)
        return [row(*self._unpack(form, offset + size * position)) for position in range(count)]

    def _inside(self, what: str, offset: int, size: int) -> None:
        if offset + size > len(self._data):
            raise ElfError(f"{what} that ends at byte {offset + size}", f"a file of {len(self._data)} bytes")

    def _unpack(self, form: Struct, offset: int) -> tuple[Any, ...]:
        try:
            return form.unpack_from(self._data, offset)
        except (StructError, OverflowError) as error:
            raise ElfError(f"{form.size} bytes at {offset}", f"a file of {len(self._data)} bytes") from error
