"""Whether a kernel replaces the forward of a class, and why not: decided for a class, without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from kernelworks.errors import KernelworksError
from kernelworks.layers.contract import breaches, runs_backward, runs_compiled
from kernelworks.layers.device import Target
from kernelworks.layers.kernel import LayerKernel, load_layer
from kernelworks.layers.mapping import ByMode, ByRange, KernelMapping
from kernelworks.layers.marks import layer_name, marked_forward
from kernelworks.layers.mode import Mode, serving
from kernelworks.layers.repository import Repository

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Kept", "KernelizeFallback", "Replaced", "Request", "Verdict", "judge"]


class KernelizeFallback(Flag):
    """The cases in which a layer may keep its original forward; in all others `kernelize` raises.

    Attributes:
        NONE: No case.
        NO_LAYER: Nothing is registered for the layer.
        NO_DEVICE: Nothing is registered for it on this type of device.
        NO_COMPATIBLE_PROPERTIES: Nothing that is registered is for a device of this capability.
        NO_COMPATIBLE_MODE: Nothing that is registered serves this mode, or the kernel itself does not.
        CANNOT_LOAD: The loader cannot load the kernel, for whatever reason it has an error for.
        DEFAULT: All of these but CANNOT_LOAD.
        ALL: All of these.
    """

    NONE = 0
    NO_LAYER = auto()
    NO_DEVICE = auto()
    NO_COMPATIBLE_PROPERTIES = auto()
    NO_COMPATIBLE_MODE = auto()
    CANNOT_LOAD = auto()
    DEFAULT = NO_LAYER | NO_DEVICE | NO_COMPATIBLE_PROPERTIES | NO_COMPATIBLE_MODE
    ALL = DEFAULT | CANNOT_LOAD


@dataclass(frozen=True)
class Request:
    """What a model is kernelized for.

    Attributes:
        disabled: Whether the environment forbids kernels.
    """

    mode: Mode
    target: Target
    mapping: KernelMapping
    disabled: bool = False


@dataclass(frozen=True)
class Replaced:
    """Modules of a class run the forward of `kernel`."""

    cls: str
    layer_name: str
    kernel: LayerKernel

    def __str__(self) -> str:
        return f"runs {self.kernel}"

    def to_json(self) -> dict[str, Any]:
        return {"class": self.cls, "layer": self.layer_name, "replaced": True, "kernel": self.kernel.to_json()}


@dataclass(frozen=True)
class Kept:
    """Modules of a class keep their forward.

    Attributes:
        reason: Why, as the end of a sentence.
        case: Which case of `KernelizeFallback` must be allowed; NONE where nobody asked for a kernel, and None where
            the registration is wrong, which no case allows.
        error: What the loader said.
    """

    cls: str
    layer_name: str
    kernel: ClassVar[None] = None
    reason: str
    case: KernelizeFallback | None = KernelizeFallback.NONE
    error: Exception | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"keeps its forward: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        return {"class": self.cls, "layer": self.layer_name, "replaced": False, "reason": self.reason}


Verdict = Replaced | Kept


def judge(cls: type[nn.Module], request: Request) -> Verdict:
    """What `request` makes of modules of the marked class `cls`. Loads the kernel."""
    name = str(layer_name(cls))
    keep = partial(Kept, cls.__qualname__, name)
    if cls.forward is not marked_forward(cls):
        return keep("it overrides the forward that was marked")
    selected = _selected(name, request, keep)
    if isinstance(selected, Kept):
        return selected
    mode, repository = selected
    try:
        kernel = load_layer(repository, request.target.backend)
    except (KernelworksError, FileNotFoundError) as error:
        return keep(f"{repository} cannot be loaded: {error}", KernelizeFallback.CANNOT_LOAD, error)
    claims = (f"it is registered for mode {mode} and {lack}" for lack in _lacks(kernel.layer, mode))
    if faults := "; ".join((*breaches(kernel.layer, cls), *claims)):
        return keep(f"{repository} cannot stand for it: {faults}", None)
    if lacks := " and ".join(_lacks(kernel.layer, request.mode)):
        return keep(f"{repository} {lacks}, and mode {request.mode} is wanted", KernelizeFallback.NO_COMPATIBLE_MODE)
    return Replaced(cls.__qualname__, name, kernel)


def _selected(name: str, request: Request, keep: Callable[..., Kept]) -> tuple[Mode, Repository] | Kept:
    """What is registered for layer `name` and serves `request` best, with the mode that it is registered for."""
    if request.disabled:
        return keep("DISABLE_KERNEL_MAPPING is set")
    devices = request.mapping.devices(name)
    if devices is None:
        return keep(f"no kernel is registered for layer `{name}`", KernelizeFallback.NO_LAYER)
    ranges = devices.get(request.target.type)
    if ranges is None:
        which = f"on device type `{request.target.type}` (only on: {', '.join(sorted(devices))})"
        return keep(f"no kernel is registered for layer `{name}` {which}", KernelizeFallback.NO_DEVICE)
    by_mode = _narrowest(ranges, request.target)
    if by_mode is None:
        which = f"on the capability of `{request.target}` (only on: {', '.join(sorted(map(str, ranges)))})"
        return keep(f"no kernel is registered for layer `{name}` {which}", KernelizeFallback.NO_COMPATIBLE_PROPERTIES)
    for mode in serving(request.mode):
        if mode in by_mode:
            return mode, by_mode[mode]
    which = f"that serves mode {request.mode} (only for: {', '.join(sorted(map(str, by_mode)))})"
    return keep(f"no kernel is registered for layer `{name}` {which}", KernelizeFallback.NO_COMPATIBLE_MODE)


def _narrowest(ranges: ByRange, target: Target) -> ByMode | None:
    """What is registered for the narrowest range that `target` is in; one without limits is the broadest."""
    limited = [limits for limits in ranges if limits is not None]
    capability = target.capability() if limited else None
    fitting = (limits for limits in limited if capability is not None and capability in limits)
    return ranges.get(min(fitting, key=lambda limits: limits.breadth, default=None))


def _lacks(layer: type[nn.Module], mode: Mode) -> Iterator[str]:
    if Mode.TRAINING in mode and not runs_backward(layer):
        yield "has no backward"
    if Mode.TORCH_COMPILE in mode and not runs_compiled(layer):
        yield "is not made for torch.compile"
