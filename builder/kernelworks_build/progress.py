"""How long-running stages tell where they are; who listens is decided at the edge (`cli/`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

__all__ = ["SILENT", "Advance", "Progress", "SilentProgress"]

Advance = Callable[[int], None]
"""Tells that so many more units are done."""


class Progress(Protocol):
    """A listener. All methods may be called from several threads."""

    def task(
        self, label: str, total: int | None, unit: str, seconds: float | None = None
    ) -> AbstractContextManager[Advance]:
        """A task of `total` units (`B` for bytes, else a plural noun), open while the context is.

        `seconds` are what it takes, where that is known from earlier runs: units alone say nothing of time.
        """

    def note(self, text: str) -> None:
        """One line that stays on the screen."""


class SilentProgress:
    """Listens to nothing: for tests and for callers who want no output."""

    @contextmanager
    def task(self, label: str, total: int | None, unit: str, seconds: float | None = None) -> Iterator[Advance]:  # noqa: ARG002  # a listener that ignores
        yield lambda _amount: None

    def note(self, text: str) -> None:
        """Ignores `text`."""


SILENT: Progress = SilentProgress()
"""The listener where none is given."""
