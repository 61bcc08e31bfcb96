"""The one reader of TOML data files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["TOMLDecodeError", "TextFile", "parse_toml", "read_toml"]

TOMLDecodeError = tomllib.TOMLDecodeError


class TextFile(Protocol):
    """A path, or a resource of a package."""

    def read_text(self, encoding: str) -> str: ...


def parse_toml(text: str, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The document in `text`; `parse_float` makes its decimal numbers; raises `TOMLDecodeError`."""
    document: dict[str, Any] = tomllib.loads(text, parse_float=parse_float)
    return document


def read_toml(path: TextFile) -> dict[str, Any]:
    """The document in the UTF-8 file at `path`; raises `TOMLDecodeError`."""
    return parse_toml(path.read_text(encoding="utf-8"))
