"""Everything that the audit knows of a folder, before anything is judged."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelworks.model.variant import DeviceArchs
from kernelworks.model.variant_name import Version2
from kernelworks_build.archs import union
from kernelworks_build.audit.device_code import FatBinary, is_loadable, read_device_code
from kernelworks_build.audit.elf import MAGIC, ElfFacts, read_elf
from kernelworks_build.errors import AuditError

__all__ = ["FileFact", "FolderFacts", "read_folder"]

_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)(\.\d+)?")
_BYTECODE = {".pyc", ".pyo"}
_MODULES = {".py", ".pyi"}


@dataclass(frozen=True, order=True)
class FileFact:
    """One entry of the folder.

    Attributes:
        path: Relative to the folder.
        kind: `text`, `elf`, `bytecode`, `link`, `special`, `broken` (code that cannot be read; Python too) or `binary`.
        detail: Why it is broken.
    """

    path: str
    kind: str
    detail: str = ""


@dataclass(frozen=True)
class FolderFacts:
    """The folder of one variant: every entry, every readable ELF file, every fat binary; sorted by path."""

    files: tuple[FileFact, ...]
    elfs: tuple[ElfFacts, ...]
    fat_binaries: tuple[FatBinary, ...]

    @property
    def libraries(self) -> tuple[str, ...]:
        """`DT_NEEDED` entries of all files, sorted."""
        return tuple(sorted({library for elf in self.elfs for library in elf.needed}))

    @property
    def glibc(self) -> Version2 | None:
        """The oldest glibc (major, minor) that has every version needed, or None where none is."""
        found = [_GLIBC.fullmatch(need.version) for elf in self.elfs for need in elf.version_needs]
        return max(((int(match[1]), int(match[2])) for match in found if match), default=None)

    @property
    def loadable(self) -> tuple[FatBinary, ...]:
        """The fat binaries that can run: relocatable device code is not counted."""
        return tuple(item for item in self.fat_binaries if is_loadable(item))

    @property
    def device_archs(self) -> DeviceArchs:
        """The architectures that can run."""
        return union(item.archs for item in self.loadable)


def read_folder(folder: Path) -> FolderFacts:
    """The facts of every file below `folder`; what cannot be read is a fact too."""
    files, elfs, fat_binaries = [], [], []
    for entry in sorted(folder.rglob("*")):
        if entry.is_dir() and not entry.is_symlink():
            continue
        path = entry.relative_to(folder).as_posix()
        kind = _kind(entry)
        if kind != "elf":
            fault = _python_fault(entry) if kind == "text" and entry.suffix in _MODULES else ""
            files.append(FileFact(path, "broken" if fault else kind, fault))
            continue
        try:
            elf = read_elf(entry, path)
            found = _fat_binaries(entry, elf)
        except AuditError as error:
            files.append(FileFact(path, "broken", error.message))
            continue
        files.append(FileFact(path, kind))
        elfs.append(elf)
        fat_binaries += found
    return FolderFacts(tuple(files), tuple(elfs), tuple(fat_binaries))


def _kind(entry: Path) -> str:
    if entry.is_symlink():
        return "link"
    if not entry.is_file():
        return "special"
    if entry.suffix in _BYTECODE:
        return "bytecode"
    with entry.open("rb") as stream:
        if stream.read(len(MAGIC)) == MAGIC or ".so" in PurePosixPath(entry.name).suffixes:
            return "elf"
    data = entry.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        return "binary"
    return "binary" if b"\0" in data else "text"


def _python_fault(entry: Path) -> str:
    """Why the Python of this process cannot read the module at `entry`; empty where it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd escapes and the like are the author's affair
        try:
            ast.parse(entry.read_bytes())
        except SyntaxError as error:
            return f"is not Python: {error.msg} (line {error.lineno})"
    return ""


def _fat_binaries(entry: Path, elf: ElfFacts) -> list[FatBinary]:
    with entry.open("rb") as stream:
        return [found for section in elf.sections for found in read_device_code(stream, elf.path, section)]
