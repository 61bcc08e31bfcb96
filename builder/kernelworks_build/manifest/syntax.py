"""Whether the Python files of a kernel are Python: compiled, never run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

from kernelworks_build.manifest.diagnostics import Diagnostic
from kernelworks_build.manifest.files import source_files
from kernelworks_build.manifest.model import Manifest

__all__ = ["syntax_errors"]


def syntax_errors(manifest: Manifest, project: Path) -> Iterator[Diagnostic]:
    """The first fault of each Python file that this interpreter cannot compile, by file."""
    for name in source_files(manifest, project):
        if not name.endswith(".py"):
            continue
        path = project / name
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a matter of style, and every import tells it
                compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except SyntaxError as error:
            place = error.lineno or 1, error.offset or 1
            yield Diagnostic(str(path), *place, "error", "not-python", f"not valid Python: {error.msg}")
        except (MemoryError, RecursionError, ValueError) as error:  # nested too deeply; null bytes before Python 3.12
            what = f"cannot be compiled: {error or type(error).__name__}"
            yield Diagnostic(str(path), 1, 1, "error", "not-python", what)
