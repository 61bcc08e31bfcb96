"""Members of a zip file that lies elsewhere, by range requests: its directory and one run of its bytes."""

from __future__ import annotations

import io
import re
import time
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import Advance, Progress
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown

__all__ = ["RangeFile", "read_members"]

_TAIL = 1 << 10  # bytes: the end records of a zip file without a comment
_CHUNK = 4 << 20
_JOBS = 4
_PAUSES = (0.2, 1.0)  # seconds before a range is asked for again


class RangeFile(io.RawIOBase):
    """The file of `size` bytes at `url`, seekable; a read fetches exactly what has not been fetched ahead."""

    def __init__(self, remote: Remote, url: str, size: int) -> None:
        self._remote = remote
        self._url = url
        self._size = size
        self._position = 0
        self._ahead: list[tuple[int, bytes]] = []

    def fetch_ahead(self, start: int, stop: int, advance: Advance) -> None:
        """Fetch bytes `start` to before `stop` in parallel chunks and keep them.

        Raises:
            RemoteError: The server ignores ranges or, asked several times, does not give them.
        """

        def fetch(begin: int) -> bytes:
            data = self._fetch(begin, min(begin + _CHUNK, stop))
            advance(len(data))
            return data

        with ThreadPoolExecutor(_JOBS) as pool:
            self._ahead.append((start, b"".join(pool.map(fetch, range(start, stop, _CHUNK)))))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise OSError("a position before the file")
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        stop = max(self._position, min(self._position + len(view), self._size))
        data = self._bytes(self._position, stop)
        view[: len(data)] = data
        self._position = stop
        return len(data)

    def _bytes(self, start: int, stop: int) -> bytes:
        for begin, data in self._ahead:
            if begin <= start and stop <= begin + len(data):
                return data[start - begin : stop - begin]
        return self._fetch(start, stop) if stop > start else b""

    def _fetch(self, start: int, stop: int) -> bytes:
        pauses = iter(_PAUSES)
        while True:
            try:
                data = self._remote.read(self._url, start, stop)
            except RemoteError as error:  # noqa: PERF203  # asked again
                pause = next(pauses, None)
                if error.lasting or pause is None:
                    raise
                time.sleep(pause)
            else:
                if data is None:
                    raise RemoteError("its server ignores ranges", lasting=True)
                return data


def read_members(
    remote: Remote, url: str, size: int, wanted: re.Pattern[str], progress: Progress, name: str
) -> Iterator[tuple[str, bytes]]:
    """Name and content, its CRC checked, of every file in the zip file at `url` whose whole name is `wanted`.

    `size` is that of the zip file in bytes, `name` what progress is told of it. What lies between the first and the
    last of these files is fetched before the first is yielded; in a wheel the files of a folder are neighbours.

    Raises:
        RemoteError: The server ignores ranges or does not give them, perhaps after the first files were yielded.
        ToolchainError: What it gave is not the directory of a zip file, or not what that directory says.
    """
    try:
        with RangeFile(remote, url, size) as stream:
            stream.fetch_ahead(max(0, size - _TAIL), size, lambda _amount: None)
            with zipfile.ZipFile(stream) as archive:
                chosen = [info for info in archive.infolist() if not info.is_dir() and wanted.fullmatch(info.filename)]
                start, stop = _span(archive, chosen)
                with progress.task(f"fetching {len(chosen)} files of {name}", stop - start, "B") as advance:
                    stream.fetch_ahead(start, stop, advance)
                for info in chosen:
                    yield info.filename, archive.read(info)
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ToolchainError(
            f"what `{shown(url)}` gave is not the zip file of the lock: {error}",
            hint="an origin, or something on the way, changes files: KERNELWORKS_PYPI_INDEX names another",
            url=shown(url),
        ) from error


def _span(archive: zipfile.ZipFile, chosen: list[zipfile.ZipInfo]) -> tuple[int, int]:
    """Offsets of the first byte of the chosen members and of the first byte after them."""
    offsets = [info.header_offset for info in chosen]
    if not offsets:
        return 0, 0
    after = (info.header_offset for info in archive.infolist() if info.header_offset > max(offsets))
    return min(offsets), min(after, default=archive.start_dir)
