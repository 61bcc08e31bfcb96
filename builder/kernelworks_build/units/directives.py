"""What a C++ file says to the preprocessor, read as text: more than a compiler sees, never less.

Conditions are not evaluated: what one of several passes skips, another may read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["conditions", "definitions", "includes", "pastes", "probes", "tokens", "without_comments"]

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*(?:include|include_next|import)[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_PROBE = re.compile(rb'__has_include(?:_next)?\s*\(\s*["<]([^">\n]+)[">]')
_CONDITION = re.compile(rb"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b(.*)", re.MULTILINE)
_DEFINITION = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_TOKEN = re.compile(rb"[A-Za-z_]\w*")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONTINUED = re.compile(rb"\\\r?\n")


def includes(text: bytes) -> set[str]:
    """The names in its include directives."""
    return {name.decode(errors="replace") for name in _INCLUDE.findall(text)}


def probes(text: bytes) -> set[str]:
    """The names that it asks for by `__has_include`."""
    return {name.decode(errors="replace") for name in _PROBE.findall(text)} if b"__has_include" in text else set()


def conditions(text: bytes) -> set[str]:
    """The identifiers in its `#if` and `#ifdef`."""
    return {name for line in _CONDITION.findall(_CONTINUED.sub(b" ", text)) for name in tokens(line)}


def definitions(text: bytes) -> set[str]:
    """The macros that it defines."""
    return {name.decode() for name in _DEFINITION.findall(text)}


def tokens(text: bytes) -> Iterator[str]:
    """Its identifiers, in order."""
    return (name.decode() for name in _TOKEN.findall(text))


def pastes(text: bytes) -> bool:
    """Whether it makes identifiers of parts (`##`)."""
    return b"##" in text


def without_comments(text: bytes) -> bytes:
    """`text` with a blank for each comment; one in a string literal goes, too."""
    return _COMMENT.sub(b" ", text)
