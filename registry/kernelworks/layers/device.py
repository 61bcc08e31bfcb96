"""The devices that mappings are written for, and which of them a model is on.

`devices.json` holds the types: for each, the backend whose variants run there, what torch calls the device, and
the properties that a mapping may ask of it.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelworks import host
from kernelworks.errors import UsageError

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["CUDAProperties", "CapabilityRange", "Device", "ROCMProperties", "Target", "target_of"]


@dataclass(frozen=True)
class CapabilityRange:
    """The devices from `min_capability` to `max_capability`, both included; 7.5 is written 75.

    Raises:
        UsageError: The ends are no integers, or the wrong way round.
    """

    min_capability: int
    max_capability: int

    def __post_init__(self) -> None:
        ends = (self.min_capability, self.max_capability)
        if any(type(end) is not int for end in ends):
            raise UsageError(f"capabilities are integers such as 75 for 7.5, not `{ends[0]!r}` and `{ends[1]!r}`")
        if ends[0] > ends[1]:
            raise UsageError(f"min_capability ({ends[0]}) must not be above max_capability ({ends[1]})")

    def __str__(self) -> str:
        return f"{self.min_capability} to {self.max_capability}"

    def __contains__(self, capability: int) -> bool:
        return self.min_capability <= capability <= self.max_capability

    @property
    def breadth(self) -> tuple[int, int]:
        """Sorts the narrowest range first, and of two that are equally narrow the one for newer devices."""
        return (self.max_capability - self.min_capability, -self.min_capability)


@dataclass(frozen=True)
class CUDAProperties(CapabilityRange):
    """A range of NVIDIA compute capabilities: `CUDAProperties(75, 89)` is Turing to Ada."""


@dataclass(frozen=True)
class ROCMProperties(CapabilityRange):
    """A range of AMD capabilities as torch counts them: 94 for gfx942."""


@dataclass(frozen=True)
class Device:
    """What a mapping registers kernels for.

    Args:
        type: `cpu`, `cuda`, `rocm`, `mps`, `xpu`, `npu`, `neuron` or `tpu`.
        properties: The devices of that type that the kernels are for; None for all of them.

    Raises:
        UsageError: There is no such type, or it has no such properties.
    """

    type: str
    properties: CUDAProperties | ROCMProperties | None = None

    def __post_init__(self) -> None:
        if self.type not in _devices():
            raise _unknown(self.type)
        wanted = _devices()[self.type].get("properties")
        if self.properties is not None and type(self.properties).__name__ != wanted:
            offer = f"they are {wanted}" if wanted else "it has none"
            raise UsageError(f"`{self.properties!r}` are no properties of device type `{self.type}`", hint=offer)


@dataclass(frozen=True)
class Target:
    """The device that a model is kernelized for: its type and, where one is named, its index."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    @property
    def backend(self) -> str:
        """The backend whose variants run on it."""
        backend: str = _devices()[self.type]["backend"]
        return backend

    def capability(self) -> int | None:
        """Its capability (75 for 7.5), or None where no such device is visible."""
        import torch  # noqa: PLC0415  # only where a mapping asks for capabilities

        if not torch.cuda.is_available():
            return None
        major, minor = torch.cuda.get_device_capability(self.index)
        return int(major) * 10 + int(minor)


def target_of(model: nn.Module, device: str | torch.device | None) -> Target:
    """The target that `device` names; without one, the device of the model's first parameter or buffer.

    Raises:
        UsageError: It names none, or the model has neither.
    """
    if isinstance(device, str):
        return _parsed(device)
    found: Any = _device_of(model) if device is None else device
    return Target(_type_of(found), found.index)


def _parsed(text: str) -> Target:
    found = re.fullmatch(r"([a-z]+)(?::(\d+))?", text)
    if not found or found[1] not in _devices():
        raise _unknown(text)
    return Target(found[1], int(found[2]) if found[2] else None)


def _device_of(model: nn.Module) -> torch.device:
    tensor = next(chain(model.parameters(), model.buffers()), None)
    if tensor is None:
        raise UsageError("the model has no parameter whose device could be taken", hint="name it: `device=`")
    return tensor.device


def _type_of(device: torch.device) -> str:
    """The type of a torch device: one of torch's names may stand for several, one per backend."""
    types = [name for name, row in _devices().items() if row["torch"] == device.type]
    if len(types) > 1:
        here = {backend.name for backend in host.detect().backends}
        types = [name for name in types if _devices()[name]["backend"] in here] or types
    if not types:
        raise _unknown(device.type)
    return types[0]


def _unknown(name: object) -> UsageError:
    near = difflib.get_close_matches(str(name), _devices(), 1)
    return UsageError(
        f"`{name}` is not a device type that kernels are written for (known: {', '.join(_devices())})",
        hint=f"did you mean `{near[0]}`?" if near else None,
        device=str(name),
    )


@cache
def _devices() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("devices.json").read_bytes())
    return table
