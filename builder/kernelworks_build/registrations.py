"""Where sources register torch ops, read statically: in C++ by torch's macros, in Python by `torch.library`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelworks_build.claims import ID_MACRO
from kernelworks_build.suffixes import HEADER_SUFFIXES, HOST_SUFFIXES

__all__ = ["REMEDY_IN_CODE", "REMEDY_IN_PYTHON", "Registration", "read_registrations", "registrations_in"]

REMEDY_IN_CODE = f"register ops under `{ID_MACRO}`, which `TORCH_LIBRARY_EXPAND` takes"
REMEDY_IN_PYTHON = "name ops by `add_op_namespace_prefix` of `._ops`"
"""How ops come into the namespace of the build."""

_CODE = {*HOST_SUFFIXES, *HEADER_SUFFIXES, ".cu", ".hip", ".mm", ".sycl"}
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_MACRO = re.compile(r"\b(?:STABLE_)?TORCH_LIBRARY(?:_FRAGMENT|_IMPL)?(_EXPAND)?\s*\(\s*(\w+)")
_OP = re.compile(r'\.\s*(?:def|impl)\s*\(\s*(?:TORCH_SELECTIVE_SCHEMA\s*\(\s*)?"(?:\w+::)?(\w+)')
_CALLS = {
    *("custom_op", "triton_op", "define", "impl", "register_fake", "register_kernel", "register_autograd"),
    *("impl_abstract", "register_autocast", "register_vmap", "register_torch_dispatch", "Library"),
}
"""Of `torch.library`; their first argument names the op, of `Library` the namespace."""


@dataclass(frozen=True, order=True)
class Registration:
    """One place that registers ops.

    Attributes:
        path: Relative to the folder.
        line: Where the namespace is written, from 1.
        column: The same.
        namespace: As it is written.
        ops: Their names, as far as they are written there.
    """

    path: str
    line: int
    column: int
    namespace: str
    ops: tuple[str, ...]


def read_registrations(folder: Path) -> tuple[Registration, ...]:
    """Every registration in the C++ and Python files below `folder` whose namespace is written there, sorted."""
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return tuple(sorted(one for file in files for one in registrations_in(folder, file.relative_to(folder).as_posix())))


def registrations_in(folder: Path, path: str) -> Iterator[Registration]:
    """The same of the one file at `path` in `folder`, in any order."""
    suffix = PurePosixPath(path).suffix
    if suffix in _CODE:
        yield from _in_code((folder / path).read_text(encoding="utf-8", errors="replace"), path)
    elif suffix == ".py":
        yield from _in_python((folder / path).read_bytes(), path)


def _in_code(text: str, path: str) -> Iterator[Registration]:
    """Comments and directives are blanked, places stay. A macro that is expanded may stand for any name."""
    text = _DIRECTIVE.sub(_blank, _COMMENT.sub(lambda match: match[1] or _blank(match), text))
    macros = list(_MACRO.finditer(text))
    ends = [*(macro.start() for macro in macros[1:]), len(text)]
    for match, end in zip(macros, ends, strict=False):  # a text without any has one end
        namespace = match[2]
        if namespace == ID_MACRO or not (match[1] and namespace.isupper()):
            ops = _OP.findall(text, match.end(), end)
            yield Registration(path, *_place(text, match.start(2)), namespace, tuple(dict.fromkeys(ops)))


def _place(text: str, offset: int) -> tuple[int, int]:
    """Line and column."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _in_python(data: bytes, path: str) -> Iterator[Registration]:
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return  # importing it will tell
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _callee(node.func) in _CALLS:
            first = node.args[0]
            namespace, separator, op = _text(first).partition("::")
            if namespace and (separator or _callee(node.func) == "Library"):
                ops = (op.partition("(")[0],) if op else ()
                yield Registration(path, first.lineno, first.col_offset + 1, namespace, ops)


def _callee(function: ast.expr) -> str | None:
    """`define` of `torch.library.define` and of `library.define`; of a bare name, itself."""
    if isinstance(function, ast.Name):
        return function.id if function.id in {"custom_op", "triton_op", "register_fake", "Library"} else None
    owner = function.value if isinstance(function, ast.Attribute) else None
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else None
    return function.attr if isinstance(function, ast.Attribute) and name == "library" else None


def _text(node: ast.expr) -> str:
    """What is written at the start of a string; empty where it is computed."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
