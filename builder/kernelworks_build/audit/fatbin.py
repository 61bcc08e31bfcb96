"""The one reader of NVIDIA fat binaries: which device architectures a section holds, from its headers alone.

A section holds containers one after the other, padded with zeros. A container is a 16-byte header and images.
An image has a header of its own, which tells kind, architecture and flags, and a payload, which may be
compressed and is never read. The layout was read off the output of CUDA 13.0. Its code for `sm_90` and for
`sm_90a` has equal ELF flags: what marks an arch-specific (`a`) or family-specific (`f`) image is its header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from kernelworks.model.variant import DeviceArchs
from kernelworks_build.audit.elf import Section
from kernelworks_build.errors import AuditError

__all__ = ["LOADABLE", "RELOCATABLE", "FatBinary", "Image", "arch_order", "read_fat_binaries", "union"]

LOADABLE = ".nv_fatbin"
"""Section of the fat binaries that the CUDA runtime loads."""

RELOCATABLE = "__nv_relfatbin"
"""Section of the inputs of the device linker; nothing in it runs."""

_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, bytes after the header
# kind, version, header size, payload size, compressed size, options offset, minor and major version,
# arch, name offset, name size, flags
_IMAGE = struct.Struct("<HHIQIIHHIIIQ")
_KINDS = {1: "ptx", 2: "sass"}
_SUFFIXES = {1 << 20: "a", 1 << 21: "f"}
_PADDING = b"\0" * 8


@dataclass(frozen=True)
class Image:
    """Code for one architecture: `kind` is `sass`, `ptx` or, for what no driver runs, `other`."""

    kind: str
    arch: str


@dataclass(frozen=True)
class FatBinary:
    """One container: the device code of one object file.

    Attributes:
        file: Path of the ELF file that holds it.
        section: `.nv_fatbin` or `__nv_relfatbin`.
        offset: Of the container in the file, in bytes.
        images: In order.
    """

    file: str
    section: str
    offset: int
    images: tuple[Image, ...]

    @property
    def archs(self) -> DeviceArchs:
        return DeviceArchs(
            *(
                tuple(sorted({image.arch for image in self.images if image.kind == kind}, key=arch_order))
                for kind in ("sass", "ptx")
            )
        )


def arch_order(arch: str) -> tuple[int, int, str]:
    """Sort key of a compute capability: `9.0`, `9.0a`, `10.0f`, `12.0`."""
    number = arch.rstrip("af")
    major, minor = number.split(".")
    return int(major), int(minor), arch[len(number) :]


def union(archs: Iterable[DeviceArchs]) -> DeviceArchs:
    """Every architecture of `archs`, sorted."""
    found = list(archs)
    return DeviceArchs(
        tuple(sorted({arch for item in found for arch in item.sass}, key=arch_order)),
        tuple(sorted({arch for item in found for arch in item.ptx}, key=arch_order)),
    )


def read_fat_binaries(stream: BinaryIO, file: str, section: Section) -> Iterator[FatBinary]:
    """The fat binaries in `section` of the ELF file `stream`, called `file` in reports.

    Raises:
        AuditError: Bytes that are neither padding nor a fat binary, or sizes that leave the section.
    """
    position, end = section.offset, section.offset + section.size
    while position < end:
        head = _read(stream, position, min(_CONTAINER.size, end - position))
        if head[:8] == _PADDING[: len(head)]:
            position += len(_PADDING)
            continue
        magic, _, header, size = _CONTAINER.unpack(head) if len(head) == _CONTAINER.size else (0, 0, 0, 0)
        if magic != _MAGIC or header < _CONTAINER.size or position + header + size > end:
            raise _fault(file, section, position, "neither padding nor a whole fat binary")
        images = tuple(_images(stream, file, section, position + header, position + header + size))
        yield FatBinary(file, section.name, position, images)
        position += header + size


def _images(stream: BinaryIO, file: str, section: Section, position: int, end: int) -> Iterator[Image]:
    while position < end:
        head = _read(stream, position, _IMAGE.size)
        if len(head) < _IMAGE.size:
            raise _fault(file, section, position, "not a whole image header")
        kind, _, header, payload, *_, arch, _, _, flags = _IMAGE.unpack(head)
        if header < _IMAGE.size or position + header + payload > end:
            raise _fault(file, section, position, "an image that leaves its fat binary")
        suffix = "".join(letter for bit, letter in _SUFFIXES.items() if flags & bit)
        yield Image(_KINDS.get(kind, "other"), f"{arch // 10}.{arch % 10}{suffix}")
        position += header + payload


def _read(stream: BinaryIO, position: int, size: int) -> bytes:
    stream.seek(position)
    return stream.read(size)


def _fault(file: str, section: Section, position: int, what: str) -> AuditError:
    where = f"`{section.name}` of `{file}`, byte {position - section.offset} of {section.size}"
    return AuditError(f"malformed device code: {where} is {what}", file=file, section=section.name)
