"""`metadata.json` of a variant folder, as the `kernels` package (0.17.2) reads it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernelworks.model.beside import METADATA_NAME
from kernelworks.model.digest import FileEntry
from kernelworks.model.variant import KernelDependency

__all__ = ["METADATA_NAME", "Metadata"]


@dataclass(frozen=True)
class Metadata:
    """The facts of one variant that travel inside its folder.

    Attributes:
        id: Module name and op namespace.
        archs: Capabilities as the field writes them: `9.0`, `9.0+PTX`, `gfx942`.
        files: Every other file of the folder; their digests go into the document.
        builder_version: Version of the program that built it.
    """

    id: str
    name: str
    version: int
    license: str
    backend: str
    archs: tuple[str, ...]
    python_depends: tuple[str, ...]
    files: tuple[FileEntry, ...]
    builder_version: str
    kernel_depends: tuple[KernelDependency, ...] = ()
    upstream: str | None = None
    source: str | None = None

    def to_bytes(self) -> bytes:
        """The document: sorted keys, two blanks of indent, a newline at the end."""
        backend: dict[str, Any] = {"type": self.backend}
        if self.archs:
            backend["archs"] = list(self.archs)
        document: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "version": self.version,
            "license": self.license,
            "python-depends": list(self.python_depends),
            "kernel-depends": [item.to_json() for item in self.kernel_depends],
            "backend": backend,
            "digest": {"algorithm": "sha256", "files": _base64_digests(self.files)},
            "provenance": {"kernel-builder": {"version": self.builder_version}},
        }
        document |= {key: value for key in ("upstream", "source") if (value := getattr(self, key))}
        return json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"


def _base64_digests(files: Iterable[FileEntry]) -> dict[str, str]:
    return {entry.path: base64.b64encode(bytes.fromhex(entry.sha256)).decode() for entry in files}
