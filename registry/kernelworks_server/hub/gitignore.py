"""Which files of an upload a `.gitignore` leaves out; strangers write its patterns, so they are matched in linear time.

Google's RE2 does that; with Python's own `re`, one pattern like `*a*a*a*a*b` stops the registry for minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import re2
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from kernelworks_server.errors import TooLarge

__all__ = ["ignored_by"]

_LONGEST = 64 << 10  # characters
_MOST = 2_000  # lines; each costs time before the first file is matched


def ignored_by(text: str) -> Callable[[str], bool]:
    """What tells of a path whether the `.gitignore` with this text leaves it out; lines that are no pattern do nothing.

    Raises:
        TooLarge: The text is too long, or has too many lines or wildcards.
    """
    lines = text.splitlines()
    if len(text) > _LONGEST or len(lines) > _MOST:
        raise TooLarge(f"a `.gitignore` has at most {_LONGEST} characters and {_MOST} lines")
    patterns = [pattern for line in lines if (pattern := _pattern(line))]
    try:
        matches = GitIgnoreSpec(patterns, backend="re2").match_file
    except re2.error as error:  # it would take more memory than RE2 takes
        raise TooLarge("the patterns of the `.gitignore` are too many together", hint="use fewer wildcards") from error
    return lambda path: any(map(matches, _way_to(path)))


def _way_to(path: str) -> Iterator[str]:
    """The folders that `path` is in and itself: whatever else is written, nothing comes back of a folder left out."""
    yield from (path[: slash.end()] for slash in re.finditer("/", path))
    yield path


def _pattern(line: str) -> GitIgnoreSpecPattern | None:
    try:
        return GitIgnoreSpecPattern(line)
    except (GitIgnorePatternError, re.error):
        return None
