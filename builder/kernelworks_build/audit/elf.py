"""What one ELF file says of itself: dependencies, versions, symbols, segments.

Tables are found where the dynamic segment points, because that is what the loader reads; section headers
that disagree with it, or that reach beyond the end of the file, make the file unreadable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from kernelworks_build.errors import AuditError

__all__ = ["MAGIC", "ElfFacts", "Section", "Symbol", "VersionNeed", "read_elf"]

MAGIC = b"\x7fELF"

_BINDINGS = {"STB_GLOBAL": "global", "STB_WEAK": "weak", "STB_LOOS": "unique"}
_PF_X = 1
_DF_TEXTREL = 4
_VERNEED_BYTES = 16
_VERSION_INDEX = 0x7FFF


@dataclass(frozen=True)
class Symbol:
    """A dynamic symbol.

    Attributes:
        name: Mangled name.
        binding: `global`, `weak` or `unique` (one for the whole process).
        version: The version it is needed in, or None.
    """

    name: str
    binding: str
    version: str | None = None


@dataclass(frozen=True, order=True)
class VersionNeed:
    """A symbol version that the loader must find in `library` before it loads the file."""

    library: str
    version: str


@dataclass(frozen=True)
class Section:
    """Where the bytes of a section lie in the file: offset and size in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class ElfFacts:
    """One ELF file.

    Attributes:
        path: Relative to the audited folder.
        kind: `DYN` (shared object), `REL`, `EXEC`, ...
        machine: `x86_64`, `aarch64`, ...
        bits: 32 or 64.
        soname: `DT_SONAME`, or None.
        needed: `DT_NEEDED` in order.
        search_path: `DT_RPATH` and `DT_RUNPATH`, as written.
        version_needs: Sorted.
        exports: Symbols that other files can bind to, sorted.
        undefined: Symbols that other files must bring, sorted.
        stripped: Whether it has no symbol table besides the dynamic one.
        exec_stack: Whether it asks for an executable stack.
        text_relocations: Whether the loader must write into its code.
        tls: Whether it has thread-local variables.
        sections: Those that hold bytes.
    """

    path: str
    kind: str
    machine: str
    bits: int
    soname: str | None
    needed: tuple[str, ...]
    search_path: tuple[str, ...]
    version_needs: tuple[VersionNeed, ...]
    exports: tuple[Symbol, ...]
    undefined: tuple[Symbol, ...]
    stripped: bool
    exec_stack: bool
    text_relocations: bool
    tls: bool
    sections: tuple[Section, ...]

    @property
    def python_modules(self) -> tuple[str, ...]:
        """Names of the Python modules that it can be imported as."""
        return tuple(
            symbol.name.removeprefix("PyInit_") for symbol in self.exports if symbol.name.startswith("PyInit_")
        )


def read_elf(file: Path, path: str) -> ElfFacts:
    """The facts of `file`, which is called `path` in reports.

    Raises:
        AuditError: Not an ELF file, cut short, or inconsistent.
    """
    try:
        with file.open("rb") as stream:
            return _read(ELFFile(stream), file.stat().st_size, path)
    except AuditError:
        raise
    except Exception as error:  # the parser can fail on hostile bytes in any way
        reason = str(error) or type(error).__name__
        raise AuditError(f"`{path}` is not a readable ELF file: {reason}", file=path) from error


def _read(elf: Any, size: int, path: str) -> ElfFacts:
    for what, end in _extents(elf):
        if end > size:
            raise AuditError(f"`{path}` is cut short: {what} would end at byte {end} of {size}", file=path)
    segments = {segment["p_type"]: segment for segment in elf.iter_segments()}
    tags: defaultdict[str, list[Any]] = defaultdict(list)
    for tag in segments["PT_DYNAMIC"].iter_tags() if "PT_DYNAMIC" in segments else ():
        tags[tag.entry.d_tag].append(tag)
    needs = _version_needs(_table(elf, tags, "DT_VERNEED", "SHT_GNU_verneed", path), path)
    symbols = _table(elf, tags, "DT_SYMTAB", "SHT_DYNSYM", path)
    versions = _table(elf, tags, "DT_VERSYM", "SHT_GNU_versym", path)
    return ElfFacts(
        path=path,
        kind=str(elf["e_type"]).removeprefix("ET_"),
        machine=str(elf["e_machine"]).removeprefix("EM_").lower(),
        bits=elf.elfclass,
        soname=next((tag.soname for tag in tags["DT_SONAME"]), None),
        needed=tuple(tag.needed for tag in tags["DT_NEEDED"]),
        search_path=(
            *(tag.rpath for tag in tags["DT_RPATH"]),
            *(tag.runpath for tag in tags["DT_RUNPATH"]),
        ),
        version_needs=tuple(sorted(needs.values())),
        exports=_ordered(_exports(symbols)),
        undefined=_ordered(_undefined(symbols, versions, needs)),
        stripped=not any(elf.iter_sections("SHT_SYMTAB")),
        exec_stack="PT_GNU_STACK" not in segments or bool(segments["PT_GNU_STACK"]["p_flags"] & _PF_X),
        text_relocations=bool(tags["DT_TEXTREL"]) or any(tag.entry.d_val & _DF_TEXTREL for tag in tags["DT_FLAGS"]),
        tls="PT_TLS" in segments,
        sections=tuple(
            Section(section.name, section["sh_offset"], section["sh_size"]) for section in _filled_sections(elf)
        ),
    )


def _extents(elf: Any) -> Iterator[tuple[str, int]]:
    """(what, the byte after its last one) of everything that the headers place in the file."""
    yield "the table of sections", elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"]
    yield "the table of segments", elf["e_phoff"] + elf["e_phnum"] * elf["e_phentsize"]
    for section in _filled_sections(elf):
        yield f"section `{section.name}`", section["sh_offset"] + section["sh_size"]
    for segment in elf.iter_segments():
        yield f"segment {segment['p_type']}", segment["p_offset"] + segment["p_filesz"]


def _filled_sections(elf: Any) -> Iterator[Any]:
    return (section for section in elf.iter_sections() if section["sh_type"] not in {"SHT_NULL", "SHT_NOBITS"})


def _table(elf: Any, tags: Mapping[str, list[Any]], tag: str, section_type: str, path: str) -> Any | None:
    """The section at the address that the dynamic segment gives for `tag`; None where it has no such tag."""
    if not tags[tag]:
        return None
    for section in elf.iter_sections(section_type):
        if section["sh_addr"] == tags[tag][0].entry.d_val:
            return section
    raise AuditError(f"`{path}` has no section where its dynamic segment has {tag}", file=path)


def _version_needs(section: Any | None, path: str) -> dict[int, VersionNeed]:
    """Version needs by the index that symbols refer to them with."""
    if section is None:
        return {}
    if section.num_versions() * _VERNEED_BYTES > section["sh_size"]:
        raise AuditError(f"`{path}` claims more version needs than its table has room for", file=path)
    return {
        auxiliary["vna_other"] & _VERSION_INDEX: VersionNeed(need.name, auxiliary.name)
        for need, auxiliaries in section.iter_versions()
        for auxiliary in auxiliaries
    }


def _exports(symbols: Any | None) -> Iterator[Symbol]:
    for symbol in symbols.iter_symbols() if symbols else ():
        binding = _BINDINGS.get(symbol["st_info"]["bind"])
        if binding and symbol["st_shndx"] != "SHN_UNDEF":
            yield Symbol(symbol.name, binding)


def _undefined(symbols: Any | None, versions: Any | None, needs: Mapping[int, VersionNeed]) -> Iterator[Symbol]:
    for position, symbol in enumerate(symbols.iter_symbols() if symbols else ()):
        binding = _BINDINGS.get(symbol["st_info"]["bind"])
        if binding and symbol["st_shndx"] == "SHN_UNDEF":
            index = versions.get_symbol(position)["ndx"] if versions else None
            # the indexes of "local" and "global", which name no version, are read as words
            need = needs[index & _VERSION_INDEX] if isinstance(index, int) else None
            yield Symbol(symbol.name, binding, need.version if need else None)


def _ordered(symbols: Iterator[Symbol]) -> tuple[Symbol, ...]:
    return tuple(sorted(symbols, key=lambda symbol: (symbol.name, symbol.version or "")))
