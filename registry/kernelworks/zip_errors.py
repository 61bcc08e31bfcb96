"""What Python's `zipfile` raises for bytes that are no sound archive: each decompressor has errors of its own."""

from __future__ import annotations

import struct
import zipfile
import zlib

__all__ = ["BROKEN_ZIP"]

BROKEN_ZIP: tuple[type[Exception], ...] = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(NotImplementedError, RuntimeError),  # a feature or compression that this Python lacks, encryption
    *(ValueError, OverflowError),  # names and offsets
    OSError,  # positions outside the file, and all that bzip2 says
)
"""For an `except` around opening and reading alone: where files are written too, an `OSError` may be the disk's."""

try:
    import lzma
except ImportError:  # Python can be built without it, and then reads no such member either
    pass
else:
    BROKEN_ZIP += (lzma.LZMAError,)
