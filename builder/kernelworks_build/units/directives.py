"""What a C++ file says to the preprocessor, read as text: more than a compiler sees, never less.

Conditions are not evaluated: what one of several passes skips, another may read.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator

__all__ = [
    "computes_includes",
    "conditions",
    "definitions",
    "expansions",
    "includes",
    "pastes",
    "probes",
    "tokens",
    "without_comments",
]

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*(?:include|include_next|import)[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_COMPUTED = re.compile(rb"^[ \t]*#[ \t]*(?:include|include_next|import)[ \t]+\w", re.MULTILINE)
_PROBE = re.compile(rb'__has_include(?:_next)?\s*\(\s*["<]([^">\n]+)[">]')
_CONDITION = re.compile(rb"^[ \t]*#[ \t]*(?:if|ifn?def|elif|elifn?def)\b(.*)", re.MULTILINE)
_EXPRESSION = re.compile(rb"^[ \t]*#[ \t]*(?:if|elif)\b(.*)", re.MULTILINE)
_DEFINED = re.compile(rb"\bdefined\b[ \t(]*\w*")
_DEFINITION = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.MULTILINE)
_TOKEN = re.compile(rb"[A-Za-z_]\w*")
_LITERAL_OR_COMMENT = re.compile(
    rb"""R"([^()\\\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|//[^\n]*|/\*.*?\*/""", re.DOTALL
)
_CONTINUED = re.compile(rb"\\[ \t]*\r?\n")


def includes(text: bytes) -> set[str]:
    """The names in its include directives."""
    return {name.decode(errors="replace") for name in _INCLUDE.findall(text)}


def probes(text: bytes) -> set[str]:
    """The names that it asks for by `__has_include`."""
    return {name.decode(errors="replace") for name in _PROBE.findall(text)} if b"__has_include" in text else set()


def computes_includes(text: bytes) -> bool:
    """Whether a macro says what it includes."""
    return bool(_COMPUTED.search(text))


def conditions(text: bytes) -> set[str]:
    """The identifiers in its `#if` and `#ifdef`."""
    return {name for line in _CONDITION.findall(text) for name in tokens(line)}


def expansions(text: bytes) -> set[str]:
    """Those that its conditions ask for a value, and not only whether they are defined."""
    return {name for line in _EXPRESSION.findall(text) for name in tokens(_DEFINED.sub(b"", line))}


def definitions(text: bytes) -> list[tuple[str, bytes]]:
    """Every macro that it defines, with all that follows the name."""
    return [(name.decode(), meaning) for name, meaning in _DEFINITION.findall(text)]


def tokens(text: bytes) -> Iterator[str]:
    """Its identifiers, in order."""
    return (name.decode() for name in _TOKEN.findall(text))


def pastes(text: bytes) -> bool:
    """Whether it makes identifiers of parts (`##`)."""
    return b"##" in text


def without_comments(text: bytes) -> bytes:
    """`text` with a blank for each comment, and with continued lines as one: what directives are read of."""
    joined = _CONTINUED.sub(b"", text.removeprefix(BOM_UTF8))  # compilers skip the mark, too
    return _LITERAL_OR_COMMENT.sub(lambda found: b" " if found[0].startswith(b"/") else found[0], joined)
