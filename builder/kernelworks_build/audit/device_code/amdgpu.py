"""The one reader of AMD offload bundles: which target ids a section holds, and which kernels for each.

A section holds one bundle per translation unit, one after the other, padded with zeros. A bundle is a magic, a table of
entries and what these place; the entry of the host places nothing (Clang, "Clang Offload Bundler"). A code object is an
ELF file, and its header tells processor and features again (LLVM, "User Guide for AMDGPU Backend", code object v4 and
newer): an id that its own code contradicts is refused, as is everything that is not known.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, BinaryIO

from elftools.elf.elffile import ELFFile

from kernelworks_build.audit.device_code.fat_binary import FatBinary, Image, fault, read
from kernelworks_build.audit.elf import Section
from kernelworks_build.toml import read_toml

__all__ = ["machines", "read_bundles"]

_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED = b"CCOB"
_NO_PADDING = re.compile(rb"[^\0]")
_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQQ")  # offset from the magic, size, length of the id that follows
_HOST = "host-"
_DEVICE = "hipv4-amdgcn-amd-amdhsa--"

_HEADER = struct.Struct("<7sBB7xHHIQQQI")  # up to the flags: identification, system and version of the ABI; then ELF's
_CODE_OBJECT = (b"\x7fELF\x02\x01\x01", 64, 224)  # 64-bit little-endian, for the HSA runtime, on AMDGPU
_ABI_VERSIONS = {2, 3, 4}  # code object v4, v5, v6
_STATES = ("", "", "-", "+")  # not supported, any, off, on
_KERNEL = ".kd"  # ending of the symbol of a kernel's descriptor


class _UnknownError(Exception):
    """What lies there instead of what is known, as a phrase."""


@cache
def machines() -> Mapping[int, str]:
    """The processor by its number in the flags of a code object."""
    data = read_toml(files("kernelworks_build.audit.device_code") / "amdgpu.toml")
    return {number: name for name, number in data["machines"].items()}


def read_bundles(stream: BinaryIO, file: str, section: Section) -> Iterator[FatBinary]:
    """The offload bundles in `section` of the ELF file `stream`, called `file` in reports.

    Raises:
        AuditError: Bytes that are neither padding nor a bundle, or a bundle with anything in it that is not known.
    """
    data, at = read(stream, section.offset, section.size), 0
    while found := _NO_PADDING.search(data, at):
        at = found.start()
        try:
            images, end = _bundle(data, at)
        except _UnknownError as error:
            raise fault(file, section, section.offset + at, str(error)) from error
        yield FatBinary(file, section.name, section.offset + at, images)
        at = end


def _bundle(data: bytes, at: int) -> tuple[tuple[Image, ...], int]:
    """The images of the bundle at byte `at`, and where it ends."""
    if data.startswith(_COMPRESSED, at):
        raise _UnknownError("a compressed bundle, which nothing here reads; compile with --no-offload-compress")
    if not data.startswith(_MAGIC, at):
        raise _UnknownError("neither padding nor an offload bundle")
    images = []
    entries, end = _entries(data, at + len(_MAGIC))
    for name, offset, size in entries:
        start = at + offset
        if start < end or start + size > len(data):
            raise _UnknownError(f"a bundle whose entry `{name}` overlaps what is before it or leaves the section")
        end = start + size
        if not name.startswith(_HOST):
            images.append(_image(name, data[start:end]))
        elif size:
            raise _UnknownError(f"a bundle with {size} bytes for `{name}`, which has none")
    return tuple(images), end


def _entries(data: bytes, at: int) -> tuple[list[tuple[str, int, int]], int]:
    """The table at byte `at` as (id, offset from the magic, size), and where it ends."""
    (count,), at = _unpack(_COUNT, data, at), at + _COUNT.size
    entries = []
    for _ in range(count):
        offset, size, length = _unpack(_ENTRY, data, at)
        at += _ENTRY.size + length
        if at > len(data):
            raise _UnknownError("a bundle that is cut short")
        entries.append((data[at - length : at].decode("ascii", "backslashreplace"), offset, size))
    return entries, at


def _image(name: str, code: bytes) -> Image:
    arch = _target(code)
    if name != _DEVICE + arch:
        raise _UnknownError(f"a bundle with code for `{arch}` as its entry `{name}`")
    return Image("sass", arch, _kernels(code))


def _target(code: bytes) -> str:
    """The target id of a code object, by its flags."""
    ident, system, abi, _, machine, _, _, _, _, flags = _unpack(_HEADER, code, 0)
    if (ident, system, machine) != _CODE_OBJECT:
        raise _UnknownError("a bundle with an entry that is no code object")
    if abi not in _ABI_VERSIONS:
        raise _UnknownError(f"a bundle with a code object of the unknown ABI version {abi}")
    processor = machines().get(flags & 0xFF, f"machine {flags & 0xFF:#x}")
    states = {"sramecc": _STATES[flags >> 10 & 3], "xnack": _STATES[flags >> 8 & 3]}
    return processor + "".join(f":{feature}{state}" for feature, state in states.items() if state)


def _kernels(code: bytes) -> tuple[str, ...]:
    try:
        symbols = ELFFile(io.BytesIO(code)).get_section_by_name(".dynsym").iter_symbols()
        names = [symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"]
    except Exception as error:  # the parser can fail on hostile bytes in any way
        raise _UnknownError(f"a bundle with a code object that cannot be read ({error})") from error
    return tuple(sorted(name.removesuffix(_KERNEL) for name in names if name.endswith(_KERNEL)))


def _unpack(form: struct.Struct, data: bytes, at: int) -> tuple[Any, ...]:
    try:
        return form.unpack_from(data, at)
    except struct.error as error:
        raise _UnknownError("a bundle that is cut short") from error
