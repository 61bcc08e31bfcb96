"""Which device architectures a component is compiled for.

No request means the toolkit's whole list. A request is compiled where its base is in that list; an arch- or
family-specific one (`9.0a`, `10.0f`) replaces its base. A request that the toolkit has no code for is reported, never
dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelworks.model.variant import DeviceArchs

__all__ = ["Capability", "Selection", "select"]


@dataclass(frozen=True, order=True)
class Capability:
    """A compute capability such as `9.0a+PTX`.

    Attributes:
        base: (major, minor).
        suffix: `""`, `a` (this arch only) or `f` (this family only).
        ptx: Whether PTX is asked for besides machine code.
    """

    base: tuple[int, int]
    suffix: str = ""
    ptx: bool = False

    @classmethod
    def parse(cls, text: str) -> Capability:
        """The capability in `text`; raises ValueError where it is none."""
        found = re.fullmatch(r"(\d{1,2})\.(\d)([af]?)(\+PTX)?", text)
        if not found:
            msg = f"`{text}` is not a compute capability; one looks like 8.0, 9.0a or 12.0+PTX"
            raise ValueError(msg)
        return cls((int(found[1]), int(found[2])), found[3], bool(found[4]))

    def __str__(self) -> str:
        return self.arch + ("+PTX" if self.ptx else "")

    @property
    def arch(self) -> str:
        """Without the PTX mark: `9.0a`."""
        return f"{self.base[0]}.{self.base[1]}{self.suffix}"


@dataclass(frozen=True)
class Selection:
    """The archs to compile for, and the requests that give no code with this toolkit, as they were written."""

    archs: DeviceArchs
    without_code: tuple[str, ...]


def select(requested: Iterable[str], toolkit: Sequence[str]) -> Selection:
    """What to compile for when `requested` (may be empty) meets a toolkit that supports `toolkit`.

    Args:
        requested: Capabilities as in the manifest: `9.0`, `9.0a`, `8.0+PTX`.
        toolkit: The toolkit's list, in the same form.

    Raises:
        ValueError: A text is not a capability.
    """
    supported = [Capability.parse(text) for text in toolkit]
    wanted = [Capability.parse(text) for text in requested]
    if not wanted:
        return Selection(_archs(supported), ())
    bases = {item.base for item in supported}
    served = [item for item in wanted if item.base in bases]
    specific = {item.base for item in served if item.suffix}
    return Selection(
        _archs(item for item in served if item.suffix or item.base not in specific),
        tuple(str(item) for item in wanted if item.base not in bases),
    )


def _archs(capabilities: Iterable[Capability]) -> DeviceArchs:
    ordered = sorted(set(capabilities))
    return DeviceArchs(
        tuple(dict.fromkeys(item.arch for item in ordered)),
        tuple(dict.fromkeys(item.arch for item in ordered if item.ptx)),
    )
