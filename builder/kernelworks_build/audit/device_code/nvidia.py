"""The one reader of NVIDIA fat binaries: which device architectures a section holds, from its headers alone.

A section holds containers one after the other, padded with zeros. A container is a 16-byte header and images.
An image has a header of its own, which tells kind, architecture and flags, and a payload, which may be
compressed and is never read. The layout was read off the output of CUDA 13.0. Its code for `sm_90` and for
`sm_90a` has equal ELF flags: what marks an arch-specific (`a`) or family-specific (`f`) image is its header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from kernelworks_build.audit.device_code.fat_binary import FatBinary, Image, fault, read
from kernelworks_build.audit.elf import Section

__all__ = ["read_containers"]

_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, bytes after the header
# kind, version, header size, payload size, compressed size, options offset, minor and major version,
# arch, name offset, name size, flags
_IMAGE = struct.Struct("<HHIQIIHHIIIQ")
_KINDS = {1: "ptx", 2: "sass"}
_SUFFIXES = {1 << 20: "a", 1 << 21: "f"}
_PADDING = b"\0" * 8


def read_containers(stream: BinaryIO, file: str, section: Section) -> Iterator[FatBinary]:
    """The fat binaries in `section` of the ELF file `stream`, called `file` in reports.

    Raises:
        AuditError: Bytes that are neither padding nor a fat binary, or sizes that leave the section.
    """
    position, end = section.offset, section.offset + section.size
    while position < end:
        head = read(stream, position, min(_CONTAINER.size, end - position))
        if head[:8] == _PADDING[: len(head)]:
            position += len(_PADDING)
            continue
        magic, _, header, size = _CONTAINER.unpack(head) if len(head) == _CONTAINER.size else (0, 0, 0, 0)
        if magic != _MAGIC or header < _CONTAINER.size or position + header + size > end:
            raise fault(file, section, position, "neither padding nor a whole fat binary")
        images = tuple(_images(stream, file, section, position + header, position + header + size))
        yield FatBinary(file, section.name, position, images)
        position += header + size


def _images(stream: BinaryIO, file: str, section: Section, position: int, end: int) -> Iterator[Image]:
    while position < end:
        head = read(stream, position, _IMAGE.size)
        if len(head) < _IMAGE.size:
            raise fault(file, section, position, "not a whole image header")
        kind, _, header, payload, *_, arch, _, _, flags = _IMAGE.unpack(head)
        if header < _IMAGE.size or position + header + payload > end:
            raise fault(file, section, position, "an image that leaves its fat binary")
        suffix = "".join(letter for bit, letter in _SUFFIXES.items() if flags & bit)
        yield Image(_KINDS.get(kind, "other"), f"{arch // 10}.{arch % 10}{suffix}")
        position += header + payload
