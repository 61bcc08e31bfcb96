"""How the modules of a kernel are executed: from bytes that are proved when they are read.

No bytecode is read or written. A source is read once, compared with its digest and compiled, however long after the
kernel was verified that is. A shared object is looked at before `dlopen`: one that has been touched since then has to
have its digest still, and one that is cut short would end the process.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from kernelworks.binaries import elf
from kernelworks.cache.markers import stamp
from kernelworks.dependencies import Step, taking
from kernelworks.errors import VerifyError
from kernelworks.model.digest import FileEntry
from kernelworks.verify import Fault, content_faults, verify_error

__all__ = ["Contents", "ExtensionLoader", "KernelModule", "SourceLoader"]

_HINT = "it has changed since the kernel was verified: load it in a new process"


@dataclass(frozen=True)
class Contents:
    """The files of a kernel.

    Attributes:
        folder: The verified folder.
        files: By path.
        step: What importing one of them is.
        stamps: Path -> `stamp` of each shared object, taken when the folder was verified.
    """

    folder: Path
    files: Mapping[str, FileEntry]
    step: Step
    stamps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def verified(cls, folder: Path, files: Iterable[FileEntry], step: Step) -> Contents:
        """The contents of `folder`, which has just been verified."""
        by_path = {entry.path: entry for entry in files}
        libraries = [path for path in by_path if path.endswith(tuple(EXTENSION_SUFFIXES))]
        return cls(folder, by_path, step, {path: stamp((folder / path).lstat()) for path in libraries})

    def listed(self, path: str) -> FileEntry:
        """What the file at `path`, in full, must be.

        Raises:
            VerifyError: No such file was published.
        """
        inside = path.removeprefix(f"{self.folder}/")
        if inside not in self.files:
            raise self.refusal(Fault(inside, "nothing", "a file that is not listed"), _HINT)
        return self.files[inside]

    def refusal(self, fault: Fault, hint: str) -> VerifyError:
        return verify_error(str(self.folder), (fault,), hint=hint)


class KernelModule(ModuleType):
    """A module that pickles by its name, which says the digest of the kernel."""

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self.__name__,)


class SourceLoader(SourceFileLoader):
    """Executes a Python file of `contents`."""

    def __init__(self, fullname: str, path: str, contents: Contents) -> None:
        super().__init__(fullname, path)
        self.contents = contents

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return KernelModule(spec.name)

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        for fault in content_faults(self.contents.listed(path), io.BytesIO(data)):
            raise self.contents.refusal(fault, _HINT)
        code: CodeType = self.source_to_code(data, path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        with taking(self.contents.step):
            super().exec_module(module)


class ExtensionLoader(ExtensionFileLoader):
    """Opens a shared object of `contents`."""

    def __init__(self, fullname: str, path: str, contents: Contents) -> None:
        super().__init__(fullname, path)
        self.contents = contents

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        entry = self.contents.listed(self.path)
        if stamp(os.lstat(self.path)) != self.contents.stamps[entry.path]:
            with Path(self.path).open("rb") as file:
                for fault in content_faults(entry, file):
                    raise self.contents.refusal(fault, _HINT)
        if sys.platform == "linux":
            try:
                elf.check(self.path)
            except elf.ElfError as error:
                fault = Fault(entry.path, error.expected, error.got)
                raise self.contents.refusal(fault, "ask its publisher to build it again") from error
        return super().create_module(spec)
