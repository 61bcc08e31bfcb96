"""Which units learn the name of a build when they are linked: an edit of another file then leaves their objects alone.

The name (Python module and op namespace) comes from the digest of all sources. Such a unit is compiled with a
placeholder of the same length, over which the link step writes the name, in copies. That is right where every mention
of the name ends as a symbol or as a whole string in the object, as in the macros below; others are compiled with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from kernelworks_build.claims import ID_MACRO
from kernelworks_build.compile import DIGEST_CHARACTERS, CompileSpec
from kernelworks_build.units import directives
from kernelworks_build.units.texts import Texts

__all__ = ["named_when_linked", "with_late_names"]

_NAMED = "named"
_MACROS = {
    *("PYBIND11_MODULE", "REGISTER_EXTENSION", "TORCH_LIBRARY_EXPAND", "TORCH_LIBRARY_IMPL_EXPAND"),
    *(f"STABLE_TORCH_LIBRARY{form}" for form in ("", "_EXPAND", "_FRAGMENT", "_IMPL", "_IMPL_EXPAND")),
}
"""Each takes the name first. Torch's own `TORCH_LIBRARY` makes a `std::string` of it, which gcc stores in pieces."""

_MENTION = re.compile(rf"\b(?:{'|'.join(sorted(_MACROS))})\s*\(\s*{ID_MACRO}\b".encode())


def named_when_linked(code: list[bytes]) -> bool:
    """Whether a unit of this `code`, without comments, mentions the name, and only where a placeholder does as well."""
    return (
        any(map(_MENTION.search, code))
        and not any(ID_MACRO.encode() in _MENTION.sub(b"", text) for text in code)
        and not any(name in _MACROS for text in code for name, _ in directives.definitions(text))
    )


def with_late_names(spec: CompileSpec, texts: Texts) -> CompileSpec:
    """`spec`, whose host units learn their name when they are linked, where `texts` allow it."""
    late = {
        unit["object"]
        for unit in spec.document["units"]
        if unit["kind"] == "host" and named_when_linked([text.code for text in texts.reached(unit)])
    }
    return replace(spec, document=_renamed(spec.document, late)) if late else spec


def _renamed(document: Mapping[str, Any], late: set[str]) -> dict[str, Any]:
    name = document["id"]
    placeholder = name[:-DIGEST_CHARACTERS] + "0" * DIGEST_CHARACTERS  # no symbol is a tail of it: none starts so
    compiled, word = f"-D{ID_MACRO}={name}", f"-D{ID_MACRO}={placeholder}"
    units = [
        {**unit, "command": [word if item == compiled else item for item in unit["command"]]}
        if unit["object"] in late
        else unit
        for unit in document["units"]
    ]
    copies = {item: str(PurePosixPath(_NAMED, item)) for item in sorted(late)}
    prepare = [
        ["mkdir", "-p", _NAMED],
        ["cp", "--parents", "--target-directory", _NAMED, *copies],
        ["sed", "-i", f"s/{placeholder}/{name}/g", *copies.values()],
    ]
    link = document["link"]
    command = [copies.get(item, item) for item in link["command"]]
    return {**document, "units": units, "link": {**link, "prepare": prepare, "command": command}}
