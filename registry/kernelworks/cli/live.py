"""What the loader is doing, as one line of the terminal that is written over: what it logs."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["live"]

_CLEAR = "\r\x1b[K"


class _LastLine(logging.Handler):
    """Keeps the last record in sight, and every warning."""

    def emit(self, record: logging.LogRecord) -> None:
        text, end = record.getMessage(), "\n"
        if record.levelno < logging.WARNING:
            text, end = text[: shutil.get_terminal_size().columns - 1], ""
        sys.stderr.write(f"{_CLEAR}{text}{end}")
        sys.stderr.flush()


@contextmanager
def live() -> Iterator[None]:
    """While it lasts, the loader's log is shown where stderr is a terminal that can clear a line."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    logger, handler = logging.getLogger("kernelworks"), _LastLine()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
