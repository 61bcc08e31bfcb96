"""One file of a registry on this machine: bounded by the size that the index says, proved by its digest.

What is kept lies in the cache as `artifacts/<SHA-256>`. It grows as `<SHA-256>.part`; a killed process leaves its
part, and the next goes on from there. The store lets one process at a time download a file. Where its locks do not
hold, several write equal bytes to equal places of one part, and none of them cuts it short while it may be right.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from kernelworks.durable import sync
from kernelworks.errors import TransportError, VerifyError
from kernelworks.model.digest import FileEntry
from kernelworks.transport.client import Answer, PassingFault
from kernelworks.verify import REPUBLISH, Fault, content_faults, verify_error

__all__ = ["OpenAt", "download", "download_kept", "kept"]

OpenAt = Callable[[int], AbstractContextManager[Answer]]
"""Asks for a file from a byte on; raises what `Client.open` raises, and the registry's refusals as errors."""
Patiently = Callable[[Callable[[], None]], None]

_log = logging.getLogger("kernelworks")

_SECONDS = 60.0
_SLOWEST = 10_000
"""A server has a minute, and a second for each so many bytes."""


def download(entry: FileEntry, open_at: OpenAt, patiently: Patiently) -> BinaryIO:
    """The file, verified and at its start; it is gone when it is closed.

    Raises:
        VerifyError: The registry has other bytes than `entry` says.
        KernelworksError: It cannot be had.
    """
    stream = TemporaryFile()  # noqa: SIM115  # the caller closes it
    try:
        patiently(lambda: _complete(stream, entry, open_at))
    except BaseException:
        stream.close()
        raise
    stream.seek(0)
    return stream


def download_kept(entry: FileEntry, folder: Path, open_at: OpenAt, patiently: Patiently) -> BinaryIO:
    """The file, verified and at its start, from `folder`; it is downloaded where it is not there, or damaged.

    Raises:
        VerifyError: The registry has other bytes than `entry` says.
        KernelworksError: It cannot be had.
        OSError: The folder cannot be written.
    """
    if stream := kept(entry, folder):
        return stream
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / entry.sha256
    begun = path.with_suffix(".part")
    opened = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    with os.fdopen(opened, "r+b") as part:  # no mode of `open` makes a file and keeps what there is
        patiently(lambda: _complete(part, entry, open_at))
        part.flush()
        os.fsync(part.fileno())
        with suppress(FileNotFoundError):  # another process was faster
            begun.replace(path)
        sync(folder)
    return path.open("rb")


def kept(entry: FileEntry, folder: Path) -> BinaryIO | None:
    """The file at its start, if it is in `folder` and undamaged."""
    try:
        stream = (folder / entry.sha256).open("rb")
    except FileNotFoundError:
        return None
    if any(content_faults(entry, stream)):
        stream.close()
        return None
    stream.seek(0)
    return stream


def _complete(stream: BinaryIO, entry: FileEntry, open_at: OpenAt) -> None:
    """Let `stream`, which may hold the start of the file, hold all of it."""
    begun, fault = _measure(stream, entry)
    if fault is None:
        return
    if begun >= entry.size:  # all of it, and not the right bytes
        begun = stream.truncate(0)
    with open_at(begun) as answer:
        if answer.size not in {None, entry.size}:
            raise _wrong(answer, Fault(".", f"{entry.size} bytes", f"{answer.size} bytes"))
        if answer.start not in {0, begun}:
            raise TransportError(f"`{answer.url}` gave another range than was asked for")
        _log.info("downloading `%s`: %d bytes", answer.url, entry.size - answer.start)
        stream.seek(answer.start)
        for chunk in answer.chunks(_SECONDS + entry.size / _SLOWEST):
            stream.write(chunk)
            if stream.tell() > entry.size:
                break
    size, fault = _measure(stream, entry)
    if size < entry.size:
        raise PassingFault(f"`{answer.url}`: the connection was cut after {size} of {entry.size} bytes")
    if fault is not None:
        stream.truncate(0)
        if answer.start:
            raise PassingFault(f"`{answer.url}` does not go on from what an earlier download left")
        raise _wrong(answer, fault)


def _measure(stream: BinaryIO, entry: FileEntry) -> tuple[int, Fault | None]:
    """(size in bytes of `stream`, how it is not what `entry` says)."""
    size = stream.seek(0, os.SEEK_END)
    if size > entry.size:  # how much more, nobody knows: reading stopped there
        return size, Fault(".", f"{entry.size} bytes", "more")
    return size, next(content_faults(replace(entry, path="."), stream), None)


def _wrong(answer: Answer, fault: Fault) -> VerifyError:
    return verify_error(answer.url, (fault,), hint=REPUBLISH)
