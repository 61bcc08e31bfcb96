"""The first difference between two wheels: in which member, in which part of it, and what is there."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

from elftools.elf.elffile import ELFFile

from kernelworks_build.audit.elf import MAGIC

__all__ = ["Comparison", "compare"]

_LINES = 20  # of a text that are shown
_BYTES = 16  # of anything else
_FACTS = ("date_time", "compress_type", "create_system", "external_attr", "extra", "comment")


@dataclass(frozen=True)
class Comparison:
    """Two wheels that are not equal.

    Attributes:
        members: Names of the members that differ, in the order of the expected wheel.
        place: Where the first difference is, from the outside in: member, section, offset.
        shown: What is there in both; lines of a diff where it is text.
    """

    members: tuple[str, ...]
    place: tuple[str, ...]
    shown: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"members": list(self.members), "place": list(self.place), "shown": list(self.shown)}


def compare(expected: Path, got: Path) -> Comparison | None:
    """How the wheel `got` differs from `expected`, or None where every byte is equal."""
    left, right = expected.read_bytes(), got.read_bytes()
    if left == right:
        return None
    with ZipFile(expected) as old, ZipFile(got) as new:
        names = dict.fromkeys([*old.namelist(), *new.namelist()])
        members = tuple(name for name in names if _member(old, name) != _member(new, name))
        if not members:
            return Comparison((), ("the zip file itself", *_offset(left, right)), _dump(left, right))
        first, *inner = members[0], *_inside(_member(old, members[0]), _member(new, members[0]))
    place, shown = inner
    return Comparison(members, (first, *place), shown)


_Member = tuple[dict[str, Any], bytes] | None
_Found = tuple[tuple[str, ...], tuple[str, ...]]
"""Place and what is shown of it."""


def _member(archive: ZipFile, name: str) -> _Member:
    """What a zip file says of a member besides its content, and the content; None where it has none of that name."""
    if name not in archive.NameToInfo:
        return None
    info: ZipInfo = archive.getinfo(name)
    return {fact: getattr(info, fact) for fact in _FACTS}, archive.read(info)


def _inside(old: _Member, new: _Member) -> _Found:
    if old is None or new is None:
        return (), (f"only in the {'second' if old is None else 'first'} wheel",)
    (facts, left), (others, right) = old, new
    if left != right:
        return _content(left, right)
    return (), tuple(f"{fact}: {facts[fact]} != {others[fact]}" for fact in _FACTS if facts[fact] != others[fact])


def _content(left: bytes, right: bytes) -> _Found:
    if left.startswith(MAGIC) and right.startswith(MAGIC):
        return _sections(left, right)
    old, new = _lines(left), _lines(right)
    if old is not None and new is not None and old != new:
        return (), tuple(islice(unified_diff(old, new, n=1, lineterm=""), 2, 2 + _LINES))
    return _offset(left, right), _dump(left, right)


def _lines(data: bytes) -> list[str] | None:
    """The lines of `data`, JSON with one value on each; None where it is no text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False).splitlines()
    except ValueError:
        return None if "\0" in text else text.splitlines()


def _sections(left: bytes, right: bytes) -> _Found:
    try:
        pairs = list(zip_longest(_read_sections(left), _read_sections(right)))
    except Exception:  # noqa: BLE001  # the parser can fail on hostile bytes in any way
        pairs = []
    for old, new in pairs:
        if old == new:
            continue
        if old is None or new is None or old[0] != new[0]:
            return (), (f"section {_name(old)} != {_name(new)}",)
        return (f"section {old[0]}", *_offset(old[1], new[1])), _dump(old[1], new[1])
    return _offset(left, right), _dump(left, right)


def _read_sections(data: bytes) -> Iterator[tuple[str, bytes]]:
    for section in ELFFile(io.BytesIO(data)).iter_sections():
        yield section.name, b"" if section["sh_type"] == "SHT_NOBITS" else section.data()


def _name(section: tuple[str, bytes] | None) -> str:
    return f"`{section[0]}`" if section else "none"


def _first(left: bytes, right: bytes) -> int:
    """Index of the first byte that differs, or the length of the shorter one."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _offset(left: bytes, right: bytes) -> tuple[str, ...]:
    sizes = f" of {len(left)}" if len(left) == len(right) else f"; {len(left)} != {len(right)} bytes"
    return (f"byte {_first(left, right):#x}{sizes}",)


def _dump(left: bytes, right: bytes) -> tuple[str, ...]:
    start = _first(left, right)
    rows = [data[start : start + _BYTES].hex(" ") or "(end)" for data in (left, right)]
    return (f"-{rows[0]}", f"+{rows[1]}")
