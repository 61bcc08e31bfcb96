"""Typed reading of untrusted JSON: every fault names the key path, such as `variants[2].wheel.size`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, TypeVar

from kernelworks.errors import RepositoryError

__all__ = ["Node", "parse_json", "printable"]

T = TypeVar("T")

_HEX64 = re.compile(r"[0-9a-f]{64}")
_MAX_DEPTH = 32
_SHOWN = 80  # characters of a wrong text
_MAX_PATH_BYTES = 255
_BYTE_ORDER_MARK = "\ufeff"


def parse_json(data: bytes, origin: str) -> Node:
    """The root node of a JSON document; `origin` names it in messages.

    Raises:
        RepositoryError: Not UTF-8 without a byte order mark, not JSON, a key given twice, or nested deeper than
            any document of ours.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RepositoryError(f"{origin} is not UTF-8: {error.reason} at byte {error.start}", origin=origin) from error
    if text.startswith(_BYTE_ORDER_MARK):
        raise RepositoryError(f"{origin} starts with a byte order mark, which JSON has none of", origin=origin)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        message = f"{origin} is not valid JSON: {error or type(error).__name__}"
        raise RepositoryError(message, origin=origin) from error
    if _depth(value) > _MAX_DEPTH:
        raise RepositoryError(f"{origin} is nested deeper than {_MAX_DEPTH} levels", origin=origin)
    return Node(value, origin, "")


def printable(text: str) -> str:
    """`text` as a message may quote it: escaped where a terminal could obey it or UTF-8 cannot write it."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            msg = f"key `{printable(key[:_SHOWN])}` is given twice"
            raise ValueError(msg)
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    msg = f"`{name}` is not a JSON number"
    raise ValueError(msg)


def _depth(value: Any) -> int:
    depth = 0
    level = [value]
    while level and depth <= _MAX_DEPTH:
        depth += 1
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


class Node:
    """One value of a JSON document together with the path that leads to it."""

    def __init__(self, value: Any, origin: str, path: str) -> None:
        self.value = value
        self.origin = origin
        self.path = path

    def fault(self, message: str) -> RepositoryError:
        """The error that says `message` of this value."""
        where = f"`{self.path}` in {self.origin}" if self.path else self.origin
        return RepositoryError(f"{where} {message}", origin=self.origin, key=self.path)

    def get(self, key: str) -> Node:
        """The member `key`; its absence is an error."""
        found = self.opt(key)
        if found is None:
            raise self.fault(f"lacks the key `{key}`")
        return found

    def opt(self, key: str) -> Node | None:
        """The member `key`, or None where it is absent or null."""
        self.names()
        if self.value.get(key) is None:
            return None
        return Node(self.value[key], self.origin, f"{self.path}.{key}" if self.path else key)

    def names(self) -> tuple[str, ...]:
        """The keys of this object."""
        if not isinstance(self.value, dict):
            raise self.fault("must be an object")
        return tuple(self.value)

    def only(self, *allowed: str) -> Node:
        """This object, which has no key but those of `allowed`."""
        if unknown := sorted(set(self.names()) - set(allowed)):
            shown = printable(unknown[0][:_SHOWN])
            raise self.fault(f"has the key `{shown}`, which is none of {', '.join(sorted(allowed))}")
        return self

    def items(self, build: Callable[[Node], T]) -> tuple[T, ...]:
        """`build` of every element of this array."""
        if not isinstance(self.value, list):
            raise self.fault("must be an array")
        return tuple(
            build(Node(item, self.origin, f"{self.path}[{position}]")) for position, item in enumerate(self.value)
        )

    def text(self, *, pattern: str | None = None) -> str:
        """This string, printable: no terminal obeys it and UTF-8 can write it; `pattern` must match it whole."""
        if not isinstance(self.value, str):
            raise self.fault("must be a string")
        if not self.value.isprintable():
            raise self.fault(f"is `{printable(self.value[:_SHOWN])}`, which holds characters that cannot be printed")
        if pattern is not None and not re.fullmatch(pattern, self.value):
            raise self.fault(f"is `{self.value[:_SHOWN]}`, which does not match `{pattern}`")
        return self.value

    def choice(self, *allowed: str) -> str:
        """This string, one of `allowed`."""
        if self.text() not in allowed:
            raise self.fault(f"is `{self.value[:_SHOWN]}`, not one of {', '.join(allowed)}")
        return self.text()

    def natural(self) -> int:
        """This integer, zero or more; booleans are none."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            raise self.fault("must be an integer of zero or more")
        return self.value

    def flag(self) -> bool:
        """This boolean."""
        if not isinstance(self.value, bool):
            raise self.fault("must be true or false")
        return self.value

    def sha256(self) -> str:
        """This SHA-256 in lower-case hex."""
        if not _HEX64.fullmatch(self.text()):
            raise self.fault("must be 64 lower-case hex digits")
        return self.text()

    def relative_path(self) -> str:
        """This path: relative, `/`-separated, normal, inside its root on every file system."""
        text = self.text()
        path = PurePosixPath(text)
        if (
            not text
            or path.is_absolute()
            or str(path) != text
            or ".." in path.parts
            or any(character in text for character in '\\:"')
            or len(text.encode()) > _MAX_PATH_BYTES
        ):
            raise self.fault(
                f"is `{text[:_SHOWN]}`, not a relative path inside its root of at most {_MAX_PATH_BYTES} bytes"
            )
        return text
