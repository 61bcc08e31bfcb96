"""Whether a folder holds exactly the files that were published: nothing is imported before this says so."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from kernelworks.errors import VerifyError
from kernelworks.model.digest import FileEntry, hash_file

__all__ = ["Fault", "check_folder", "verify_error"]

_SHOWN = 5


@dataclass(frozen=True)
class Fault:
    """One file that is not as published; `expected` and `got` are short phrases."""

    file: str
    expected: str
    got: str


def check_folder(folder: Path, files: Iterable[FileEntry], *, hint: str, beside: frozenset[str] = frozenset()) -> None:
    """Return if `folder` holds `files` and nothing else.

    Args:
        folder: Where the files should be.
        files: Every file with its size in bytes and SHA-256.
        hint: What the reader of an error can do.
        beside: Paths that may be there without being listed, and are never imported.

    Raises:
        VerifyError: With `file`, `expected` and `got` of the first fault and all of them in `faults`.
    """
    if faults := tuple(_faults(folder, files, beside)):
        raise verify_error(str(folder), faults, hint=hint)


def verify_error(subject: str, faults: tuple[Fault, ...], *, hint: str | None) -> VerifyError:
    """The error that tells `faults` of `subject`, a folder or a file."""
    shown = "; ".join(f"`{item.file}`: expected {item.expected}, got {item.got}" for item in faults[:_SHOWN])
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    first = faults[0]
    return VerifyError(
        f"`{subject}` is not what was published: {shown}{more}",
        hint=hint,
        subject=subject,
        file=first.file,
        expected=first.expected,
        got=first.got,
        faults=[asdict(item) for item in faults],
    )


def _faults(folder: Path, files: Iterable[FileEntry], beside: frozenset[str]) -> Iterator[Fault]:
    if folder.is_symlink() or not folder.is_dir():
        yield Fault(".", "a folder", "a symbolic link" if folder.is_symlink() else "nothing")
        return
    listed = {entry.path: entry for entry in files}
    found = dict(sorted(_walk(folder, "")))
    for path, kind in found.items():
        if kind != "a file":
            yield Fault(path, "a file" if path in listed else "nothing", kind)
        elif _is_bytecode(path):
            yield Fault(path, "nothing", "bytecode, which could run in place of the source")
        elif path not in listed and path not in beside:
            yield Fault(path, "nothing", "a file that is not listed")
    for path, entry in listed.items():
        if path not in found:
            yield Fault(path, "a file", "nothing")
        elif found[path] == "a file":
            yield from _content_faults(folder / path, entry)


def _content_faults(file: Path, entry: FileEntry) -> Iterator[Fault]:
    size = file.stat().st_size
    if size != entry.size:
        yield Fault(entry.path, f"{entry.size} bytes", f"{size} bytes")
        return
    _, sha256 = hash_file(file)
    if sha256 != entry.sha256:
        yield Fault(entry.path, f"sha256 {entry.sha256}", f"sha256 {sha256}")


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if entry.is_symlink():
                yield path, "a symbolic link"
            elif entry.is_dir():
                yield from _walk(folder / entry.name, f"{path}/")
            else:
                yield path, "a file" if entry.is_file() else "a special file"


def _is_bytecode(path: str) -> bool:
    pure = PurePosixPath(path)
    return "__pycache__" in pure.parts or pure.suffix in {".pyc", ".pyo"}
