"""The device architectures that there are: `archs.toml` as frozen dataclasses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kernelworks_build.toml import read_toml

__all__ = ["ArchKind", "arch_kinds"]


@dataclass(frozen=True)
class ArchKind:
    """The architectures of one kind of device.

    Attributes:
        pattern: What a value looks like; its group is the name of the architecture.
        known: Those that some toolkit compiles for, from old to new.
    """

    pattern: str
    known: tuple[str, ...]

    def base(self, value: str) -> str | None:
        """The architecture that `value` is of (`9.0` of `9.0a+PTX`); None where it is written wrongly."""
        found = re.fullmatch(self.pattern, value)
        return found[1] if found else None

    @property
    def hint(self) -> str:
        """All that are known, in words."""
        return f"known: {', '.join(self.known)}"


@cache
def arch_kinds() -> Mapping[str, ArchKind]:
    """What each list of architectures may hold, by the key of the list."""
    data = read_toml(files("kernelworks_build.manifest") / "archs.toml")
    return {key: ArchKind(row["base"], tuple(row["known"])) for key, row in data.items()}
