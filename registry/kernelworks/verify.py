"""Whether bytes are those that were published: nothing is imported before this says so."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from kernelworks.errors import RepositoryError, TransportError, VerifyError
from kernelworks.model.decode import printable
from kernelworks.model.digest import FileEntry, hash_stream

__all__ = [
    "REBUILD",
    "REPUBLISH",
    "Fault",
    "check_folder",
    "content_faults",
    "folder_faults",
    "is_bytecode",
    "remote_faults",
    "verify_error",
]

REBUILD = "build or download the folder again"
"""The hint where a folder of this machine is damaged."""
REPUBLISH = "the registry's copy is damaged: whoever published it can publish it again"
"""The hint where a registry has other bytes than were published into it, or lacks some."""

_log = logging.getLogger("kernelworks")

_SHOWN = 5


@dataclass(frozen=True)
class Fault:
    """One file that is not as published, `.` for the subject itself; `expected` and `got` are short phrases."""

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
    if faults := folder_faults(folder, files, beside):
        raise verify_error(str(folder), faults, hint=hint)


def folder_faults(folder: Path, files: Iterable[FileEntry], beside: frozenset[str] = frozenset()) -> tuple[Fault, ...]:
    """What `check_folder` would refuse; a folder that cannot be read proves nothing and has a fault too."""
    try:
        return tuple(_faults(folder, files, beside))
    except OSError as error:
        return (Fault(".", "files that can be read", str(error)),)


def remote_faults(files: Iterable[FileEntry], open_file: Callable[[FileEntry], BinaryIO]) -> Iterator[Fault]:
    """Which of `files` a registry lacks or has with other bytes; `open_file` opens one."""
    for entry in files:
        yield from _remote_faults(entry, open_file)


def content_faults(entry: FileEntry, stream: BinaryIO) -> Iterator[Fault]:
    """How the bytes of `stream`, seekable, differ from those of `entry`."""
    size = stream.seek(0, os.SEEK_END)
    if size != entry.size:
        yield Fault(entry.path, f"{entry.size} bytes", f"{size} bytes")
        return
    stream.seek(0)
    _, sha256 = hash_stream(stream)
    if sha256 != entry.sha256:
        yield Fault(entry.path, f"sha256 {entry.sha256}", f"sha256 {sha256}")


def verify_error(subject: str, faults: tuple[Fault, ...], *, hint: str | None) -> VerifyError:
    """The error that tells `faults` of `subject`, the full path of a folder or a file."""
    shown = "; ".join(map(_words, faults[:_SHOWN]))
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    first = faults[0]
    return VerifyError(
        f"`{subject}` is not what was published: {shown}{more}",
        hint=hint,
        subject=subject,
        file=subject if first.file == "." else first.file,
        expected=first.expected,
        got=first.got,
        faults=[asdict(item) for item in faults],
    )


def _remote_faults(entry: FileEntry, open_file: Callable[[FileEntry], BinaryIO]) -> Iterator[Fault]:
    try:
        _log.info("reading `%s`: %d bytes", entry.path, entry.size)
        with open_file(entry) as stream:
            yield from content_faults(entry, stream)
    except RepositoryError:
        yield Fault(entry.path, "a file", "nothing")
    except VerifyError as error:  # of a registry that looks at the bytes itself
        yield Fault(entry.path, error.context["expected"], error.context["got"])
    except (TransportError, OSError) as error:
        yield Fault(entry.path, "a file that can be read", str(error))


def _words(fault: Fault) -> str:
    words = f"expected {fault.expected}, got {fault.got}"
    return words if fault.file == "." else f"`{printable(fault.file)}`: {words}"


def _faults(folder: Path, files: Iterable[FileEntry], beside: frozenset[str]) -> Iterator[Fault]:
    if folder.is_symlink() or not folder.is_dir():
        yield Fault(".", "a folder", "a symbolic link" if folder.is_symlink() else "nothing")
        return
    listed = {entry.path: entry for entry in files}
    found = dict(sorted(_walk(folder, "")))
    for path, kind in found.items():
        if kind != "a file":
            yield Fault(path, "a file" if path in listed else "nothing", kind)
        elif is_bytecode(path):
            yield Fault(path, "nothing", "bytecode, which could run in place of the source")
        elif path not in listed and path not in beside:
            yield Fault(path, "nothing", "a file that is not listed")
    for path, entry in listed.items():
        if path not in found:
            yield Fault(path, "a file", "nothing")
        elif found[path] == "a file":
            with (folder / path).open("rb") as stream:
                yield from content_faults(entry, stream)


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    """(path, what it is) of everything below `folder` but folders that hold something."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if entry.is_symlink():
                yield path, "a symbolic link"
            elif entry.is_dir():
                yield from tuple(_walk(folder / entry.name, f"{path}/")) or ((path, "an empty folder"),)
            else:
                yield path, "a file" if entry.is_file() else "a special file"


def is_bytecode(path: str) -> bool:
    """Whether Python could run the file `path` in place of a source."""
    pure = PurePosixPath(path)
    return "__pycache__" in pure.parts or pure.suffix in {".pyc", ".pyo"}
