"""Whether something compiles, or may include, each file that a table lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from kernelworks_build.manifest.diagnostics import Fault, show
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.files import well_formed
from kernelworks_build.matrix import Matrix
from kernelworks_build.suffixes import HEADER_SUFFIXES, HOST_SUFFIXES

__all__ = ["sources_are_compiled"]


def sources_are_compiled(document: Document) -> Iterator[Fault]:
    """Sources that no compiler of their table takes; a backend that is not built takes any."""
    for table in document.unit_tables():
        row = Matrix.load().backends.get(document.text(*table, "backend") or "")
        if table[0] == "kernel" and row is None:
            continue
        taken = {*HOST_SUFFIXES, *HEADER_SUFFIXES, *(row.device_suffixes if row else ())}
        for path, source in well_formed(document, *table, "src"):
            suffix = PurePosixPath(source).suffix
            if suffix and suffix not in taken:  # headers like `Eigen/Core` have none
                hint = f"`[{'.'.join(map(str, table))}]` takes {', '.join(sorted(taken))}"
                yield Fault("not-compiled", path, f"nothing compiles {show(source)} here", hint)
