"""The device code in an ELF file: a section's name says who reads it, and whether what it holds can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from kernelworks_build.audit.device_code.amdgpu import read_bundles
from kernelworks_build.audit.device_code.fat_binary import FatBinary, Image
from kernelworks_build.audit.device_code.nvidia import read_containers
from kernelworks_build.audit.elf import Section

__all__ = ["FatBinary", "Image", "is_loadable", "read_device_code"]

_Reader = Callable[[BinaryIO, str, Section], Iterator[FatBinary]]

_LOADABLE: Mapping[str, _Reader] = {".nv_fatbin": read_containers, ".hip_fatbin": read_bundles}
"""Sections that a runtime loads device code from."""

_RELOCATABLE: Mapping[str, _Reader] = {"__nv_relfatbin": read_containers}
"""Sections with inputs of a device linker; nothing in them runs."""

_READERS = {**_LOADABLE, **_RELOCATABLE}


def is_loadable(item: FatBinary) -> bool:
    """Whether a runtime loads `item`."""
    return item.section in _LOADABLE


def read_device_code(stream: BinaryIO, file: str, section: Section) -> Iterator[FatBinary]:
    """The fat binaries in `section` of the ELF file `stream`, called `file` in reports; none in most sections.

    Raises:
        AuditError: It holds what is not known.
    """
    reader = _READERS.get(section.name)
    return reader(stream, file, section) if reader else iter(())
