"""The core metadata of a stored wheel, read from inside it: its directory and one member, never all of it."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from io import SEEK_CUR, SEEK_END, SEEK_SET

from packaging.metadata import parse_email

from kernelworks.model.digest import hash_bytes
from kernelworks.zip_errors import BROKEN_ZIP
from kernelworks_server.blobs import Blobs

__all__ = ["CoreMetadata", "Metadata"]

_MEMBER = re.compile(r"[^/]+\.dist-info/METADATA")
_MOST = 1 << 20  # bytes of one METADATA
_READ = 8 << 20  # bytes read of one wheel, its directory included
_KEPT = 16_384  # wheels
_PLAIN = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # other members could grow without bound while they are read


@dataclass(frozen=True)
class CoreMetadata:
    """What an index tells of a METADATA file: its SHA-256, and its `Requires-Python` if it has one."""

    sha256: str
    requires_python: str | None


class Metadata:
    """The metadata of the wheels of one registry; what was told of a blob stays true, and is kept."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.of = lru_cache(maxsize=_KEPT)(self._of)

    def _of(self, sha256: str, size: int) -> CoreMetadata | None:
        """What to tell of the blob of this SHA-256 and size, or None where it is no sound wheel."""
        data = self.read(sha256, size)
        if data is None:
            return None
        raw, _ = parse_email(data)
        return CoreMetadata(hash_bytes(data), raw.get("requires_python"))

    def read(self, sha256: str, size: int) -> bytes | None:
        """The METADATA of the wheel that this blob is, or None where it is no sound wheel."""
        try:
            with zipfile.ZipFile(_Ranges(self._blobs, sha256, size)) as archive:
                found = [info for info in archive.infolist() if _MEMBER.fullmatch(info.filename)]
                if len(found) != 1 or found[0].compress_type not in _PLAIN:
                    return None
                with archive.open(found[0]) as member:
                    data = member.read(_MOST + 1)
        except BROKEN_ZIP:
            return None
        return data if len(data) <= _MOST else None


class _Ranges:
    """A blob as the file that `zipfile` reads: a read takes just its bytes from the store, up to a total."""

    def __init__(self, blobs: Blobs, sha256: str, size: int) -> None:
        self._blobs = blobs
        self._sha256 = sha256
        self._size = size
        self._position = 0
        self._left = _READ

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        position = offset + {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self._size}[whence]
        if position < 0:
            raise OSError("a position before the file")
        self._position = position
        return position

    def read(self, amount: int = -1) -> bytes:
        stop = self._size if amount < 0 else min(self._position + amount, self._size)
        wanted = max(0, stop - self._position)
        if wanted > self._left:
            raise OSError(f"more than {_READ} bytes of a wheel would be read for its metadata")
        data = b"".join(self._blobs.read(self._sha256, self._position, stop)) if wanted else b""
        self._position += len(data)
        self._left -= wanted
        return data
