"""What device code is to the audit, whoever's compiler made it: fat binaries, and in them images for architectures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from kernelworks.model.variant import DeviceArchs
from kernelworks_build.archs import arch_order
from kernelworks_build.audit.elf import Section
from kernelworks_build.errors import AuditError

__all__ = ["FatBinary", "Image", "fault", "read"]


@dataclass(frozen=True)
class Image:
    """Code for one architecture.

    Attributes:
        kind: `sass` (machine code), `ptx` or, for what no driver runs, `other`.
        arch: `9.0a`, `gfx90a:xnack+`.
        kernels: Mangled names of the functions that a host can launch, sorted; None where they are not read.
    """

    kind: str
    arch: str
    kernels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FatBinary:
    """The device code of one object file.

    Attributes:
        file: Path of the ELF file that holds it.
        section: The section of that file.
        offset: Of the fat binary in the file, in bytes.
        images: In order.
    """

    file: str
    section: str
    offset: int
    images: tuple[Image, ...]

    @property
    def archs(self) -> DeviceArchs:
        """The architectures of its machine code and of its PTX, from old to new."""
        return DeviceArchs(
            *(
                tuple(sorted({image.arch for image in self.images if image.kind == kind}, key=arch_order))
                for kind in ("sass", "ptx")
            )
        )


def read(stream: BinaryIO, position: int, size: int) -> bytes:
    """`size` bytes of `stream` from `position` on; fewer where it ends."""
    stream.seek(position)
    return stream.read(size)


def fault(file: str, section: Section, position: int, what: str) -> AuditError:
    """The error that says `what` lies at byte `position` of `file`."""
    where = f"`{section.name}` of `{file}`, byte {position - section.offset} of {section.size}"
    return AuditError(f"malformed device code: {where} is {what}", file=file, section=section.name)
