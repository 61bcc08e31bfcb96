"""What a person at a terminal sees while a command works."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def at_a_terminal(**environment: str) -> tuple[str, str]:
    """(stdout, what the terminal got that is stderr) of `kernelworks verify`."""
    ours, theirs = os.openpty()
    program = "import sys; from kernelworks.cli import main; sys.exit(main(['verify', 'org/demo']))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    os.write(theirs, b"\0")  # the end: what was written comes in pieces
    seen = b""
    while not seen.endswith(b"\0"):
        seen += os.read(ours, 100_000)
    for descriptor in (ours, theirs):
        os.close(descriptor)
    return done.stdout, seen.decode().removesuffix("\0")


def test_a_terminal_shows_what_is_being_read_in_one_line_that_is_gone_at_the_end(registry: Any, pack: Any) -> None:
    registry.publish("org/demo", 1, pack())
    out, seen = at_a_terminal(TERM="xterm", COLUMNS="40")
    assert "are as published" in out
    *lines, last = seen.split("\r\x1b[K")[1:]
    assert lines[0].startswith("reading `")
    assert (max(map(len, lines)), last, "\n" in seen) == (39, "", False)


def test_a_terminal_that_cannot_clear_a_line_shows_nothing(registry: Any, pack: Any) -> None:
    registry.publish("org/demo", 1, pack())
    assert at_a_terminal(TERM="dumb")[1] == ""
