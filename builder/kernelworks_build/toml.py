"""The one reader of TOML data files."""

from __future__ import annotations

import sys
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["TOMLDecodeError", "parse_toml", "read_toml"]

TOMLDecodeError = tomllib.TOMLDecodeError


def parse_toml(text: str) -> dict[str, Any]:
    """The document in `text`; raises `TOMLDecodeError`."""
    return tomllib.loads(text)


def read_toml(path: Path | Traversable) -> dict[str, Any]:
    """The document in the UTF-8 file at `path`; raises `TOMLDecodeError`."""
    return parse_toml(path.read_text(encoding="utf-8"))
