"""Device architectures: what each kind looks like, which of it are known, how they are ordered: `archs.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kernelworks.model.variant import DeviceArchs
from kernelworks_build.toml import read_toml

__all__ = ["Arch", "ArchKind", "arch_kinds", "arch_order", "kind_of", "union"]

_NUMBERS = re.compile(r"gfx([0-9a-f]+)|(\d+)\.(\d+)")


@dataclass(frozen=True)
class Arch:
    """What a value asks for: `9.0a+PTX`, `gfx90a:xnack+`.

    Attributes:
        base: The architecture: `9.0`, `gfx90a`.
        suffix: What narrows the devices that run the code: `a`, `:xnack+`; empty where nothing does.
        portable: Whether code that newer devices compile is asked for besides machine code.
    """

    base: str
    suffix: str = ""
    portable: bool = False

    @property
    def name(self) -> str:
        """As it stands in `DeviceArchs`: `9.0a`."""
        return self.base + self.suffix


@dataclass(frozen=True)
class ArchKind:
    """The architectures of one kind of device.

    Attributes:
        what: What one is called.
        pattern: What a value looks like.
        known: Those that some toolkit compiles for, from old to new.
        like: Examples of values.
        replaces: Whether a value with a suffix replaces one without it; else those of one base have suffixes alike.
    """

    what: str
    pattern: str
    known: tuple[str, ...]
    like: tuple[str, ...]
    replaces: bool

    def parse(self, value: str) -> Arch | None:
        """The architecture in `value`; None where it is written wrongly."""
        found = re.fullmatch(self.pattern, value)
        if not found:
            return None
        parts = found.groupdict()
        return Arch(parts["base"], parts["suffix"], bool(parts.get("ptx")))

    @property
    def examples(self) -> str:
        """What one looks like, in words."""
        return f"one looks like {', '.join(self.like[:-1])} or {self.like[-1]}"

    @property
    def hint(self) -> str:
        """All that are known, in words."""
        return f"known: {', '.join(self.known)}"


@cache
def arch_kinds() -> Mapping[str, ArchKind]:
    """Every kind, by the key of a manifest that lists such architectures."""
    data = read_toml(files("kernelworks_build") / "archs.toml")
    return {
        key: ArchKind(row["what"], row["pattern"], tuple(row["known"]), tuple(row["like"]), row["replaces"])
        for key, row in data.items()
    }


def kind_of(value: str) -> ArchKind:
    """The kind that `value` is written like; raises ValueError where there is none."""
    for kind in arch_kinds().values():
        if kind.parse(value):
            return kind
    msg = f"`{value}` is no device architecture"
    raise ValueError(msg)


def arch_order(name: str) -> tuple[tuple[int, ...], str]:
    """Sort key of the name of an architecture, older ones first: `9.0`, `9.0a`, `10.0f`; `gfx90a`, `gfx1100`."""
    found = _NUMBERS.match(name)
    numbers = (number for number in found.groups() if number) if found else ()
    return tuple(int(number, 16) for number in numbers), name  # decimal ones keep their order


def union(archs: Iterable[DeviceArchs]) -> DeviceArchs:
    """Every architecture of `archs`, sorted."""
    found = list(archs)
    return DeviceArchs(
        tuple(sorted({arch for item in found for arch in item.sass}, key=arch_order)),
        tuple(sorted({arch for item in found for arch in item.ptx}, key=arch_order)),
    )
