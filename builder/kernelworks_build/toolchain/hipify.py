"""How the hipify of a torch release is run in the sandbox: a locked CPython with the package out of torch's wheel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelworks_build import resources

__all__ = ["PYTHON", "TORCH", "command", "environment"]

PYTHON = "/opt/cpython"
"""Where the tree of CPython is mounted; the host tree at `/usr` has what it is linked against but for expat."""

TORCH = "/opt/torch"
"""Where the tree of a torch for ROCm is mounted; its hipify lies in `python`, as a package."""


def command(what: str, source: str, into: str, suffixes: Iterable[str] = ()) -> tuple[str, ...]:
    """The command that translates `what` (`headers` or `sources`) in the folder `source` into the new folder `into`.

    The program is a part of the command: what it makes depends on it. Of sources, `suffixes` tell which files are code.
    """
    program = resources.TRANSLATE.read_text(encoding="utf-8")
    return (f"{PYTHON}/bin/python3.11", "-BPSs", "-c", program, what, source, into, *sorted(suffixes))


def environment(torch: str) -> Mapping[str, str]:
    """The variables of `command`, for the hipify in the tree `torch`."""
    return {
        "LC_ALL": "C.UTF-8",
        "LD_LIBRARY_PATH": f"{PYTHON}/lib/x86_64-linux-gnu",
        "PYTHONPATH": f"{torch}/python",
    }
