"""What a backend is to the loader: data first, and the rules that data cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelworks.model.variant import BackendFacts, DeviceArchs
from kernelworks.model.variant_name import Version2, format_version

__all__ = ["FORWARD_WITHIN_MAJOR", "Backend", "HostBackend", "Toolkit"]


@dataclass(frozen=True)
class HostBackend:
    """One backend of the installed torch, as found in this process.

    Attributes:
        name: Name of the backend.
        version: Toolkit (major, minor) that torch was built with, or None for a backend without a toolkit.
        devices: Arch of every visible device, sorted, each once.
        driver: Newest toolkit (major, minor) that the installed driver is made for, or None where nobody says.
    """

    name: str
    version: Version2 | None = None
    devices: tuple[str, ...] = ()
    driver: Version2 | None = None

    def to_json(self) -> dict[str, Any]:
        version, driver = (found and format_version(found) for found in (self.version, self.driver))
        return {"name": self.name, "version": version, "devices": list(self.devices), "driver": driver}


@dataclass(frozen=True)
class Toolkit:
    """How a variant's toolkit version relates to that of torch.

    Attributes:
        rule: The versions of torch's toolkit that are accepted, in words.
        accepts: (variant's version, torch's version) -> whether they work together.
    """

    rule: str
    accepts: Callable[[Version2, Version2], bool]


def _same_major_not_newer(needs: Version2, offer: Version2) -> bool:
    return needs[0] == offer[0] and needs[1] <= offer[1]


FORWARD_WITHIN_MAJOR = Toolkit("the same major and this minor or a newer one", _same_major_not_newer)
"""What both large vendors keep: a runtime library has one SONAME per major, and only gains entry points."""


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
        driver: (what a variant needs, arch of every visible device) -> the oldest driver that runs it, as
            `HostBackend.driver`; None for a backend that asks nothing of the driver.
    """

    name: str
    label: str
    rank: int
    detect: Callable[[Any], HostBackend | None]
    toolkit: Toolkit | None = None
    runs: Callable[[DeviceArchs, str], bool] | None = None
    driver: Callable[[BackendFacts, tuple[str, ...]], Version2 | None] | None = None
