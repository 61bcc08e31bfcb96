"""What a backend is to the loader: data first, and the rules that data cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelworks.model.variant import DeviceArchs
from kernelworks.model.variant_name import Version2, format_version

__all__ = ["Backend", "HostBackend", "Toolkit"]


@dataclass(frozen=True)
class HostBackend:
    """One backend of the installed torch, as found in this process.

    Attributes:
        name: Name of the backend.
        version: Toolkit (major, minor) that torch was built with, or None for a backend without a toolkit.
        devices: Arch of every visible device, sorted, each once.
    """

    name: str
    version: Version2 | None = None
    devices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        version = format_version(self.version) if self.version else None
        return {"name": self.name, "version": version, "devices": list(self.devices)}


@dataclass(frozen=True)
class Toolkit:
    """How a variant's toolkit version relates to that of torch.

    Attributes:
        rule: The versions of torch's toolkit that are accepted, in words.
        accepts: (variant's version, torch's version) -> whether they work together.
    """

    rule: str
    accepts: Callable[[Version2, Version2], bool]


@dataclass(frozen=True)
class Backend:
    """One backend.

    Attributes:
        name: As in the index and in `backend=`.
        label: As people write it.
        rank: Where torch is built for several backends, the one with the highest rank is the default.
        detect: The torch module, or None without one -> what it says of this backend, or None if it is not
            built for it.
        toolkit: None for a backend without a toolkit.
        runs: (archs inside a variant, arch of one device) -> whether that device runs the variant;
            None for a backend without device code.
    """

    name: str
    label: str
    rank: int
    detect: Callable[[Any], HostBackend | None]
    toolkit: Toolkit | None = None
    runs: Callable[[DeviceArchs, str], bool] | None = None
