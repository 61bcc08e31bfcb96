"""Which kernel stands for which layer: registered for the process, and for the context that runs now.

A mapping is a value. What is registered in a context lies on top of what was there and is gone at its end; threads
and tasks have contexts of their own, and what is registered outside of any context holds in all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from kernelworks.errors import UsageError
from kernelworks.layers.device import CapabilityRange, Device
from kernelworks.layers.mode import Mode, check_registered
from kernelworks.layers.repository import Repository

__all__ = ["KernelMapping", "current_mapping", "register_kernel_mapping", "use_kernel_mapping"]

GivenMapping = Mapping[str, Mapping[Device | str, Repository | Mapping[Mode, Repository]]]
"""What programs write: layer name -> device -> a repository for every mode, or one per mode."""

ByMode = Mapping[Mode, Repository]
ByRange = Mapping[CapabilityRange | None, ByMode]
ByDevice = Mapping[str, ByRange]


@dataclass(frozen=True, eq=False)
class KernelMapping:
    """Layer name -> device type -> capabilities (None for all of them) -> mode -> repository.

    Attributes:
        own: What was registered here.
        below: What holds where nothing here does.
    """

    own: Mapping[str, ByDevice]
    below: KernelMapping | None = None

    def devices(self, layer_name: str) -> ByDevice | None:
        """What is registered for a layer, or None for one that nobody has registered."""
        below = self.below.devices(layer_name) if self.below else None
        own = self.own.get(layer_name)
        return _merged_devices(below, own) if below and own else own or below

    def extended(self, more: Mapping[str, ByDevice]) -> KernelMapping:
        """The same with `more`, which wins."""
        merged = {name: _merged_devices(self.own.get(name, {}), devices) for name, devices in more.items()}
        return KernelMapping({**self.own, **merged}, self.below)


_registered = KernelMapping({})
_registering = threading.Lock()
_in_context: ContextVar[KernelMapping | None] = ContextVar("_in_context", default=None)


def current_mapping() -> KernelMapping:
    """What holds here and now."""
    return _in_context.get() or _registered


def register_kernel_mapping(mapping: GivenMapping, inherit_mapping: bool = True) -> None:
    """Register kernels for layers: until the end of the `use_kernel_mapping` context that runs, else for the process.

    Args:
        mapping: Layer name -> device type or `Device` -> a repository, or several by `Mode`. It replaces what was
            registered for the same layer, device and range of capabilities.
        inherit_mapping: Keep what is registered beside; otherwise forget it.

    Raises:
        UsageError: Something in it could never be looked up, or is no repository.
    """
    global _registered  # noqa: PLW0603  # what a process has registered is one value
    own = _parsed(mapping)
    if here := _in_context.get():
        _in_context.set(here.extended(own) if inherit_mapping else KernelMapping(own))
    else:
        with _registering:
            _registered = _registered.extended(own) if inherit_mapping else KernelMapping(own)


def use_kernel_mapping(mapping: GivenMapping, *, inherit_mapping: bool = True) -> AbstractContextManager[None]:
    """A context in which `mapping` is registered, on top of what holds outside or in the place of it.

    Arguments and errors are those of `register_kernel_mapping`.
    """
    return _using(_parsed(mapping), inherit_mapping)


@contextmanager
def _using(own: Mapping[str, ByDevice], inherit: bool) -> Iterator[None]:
    token = _in_context.set(KernelMapping(own, current_mapping() if inherit else None))
    try:
        yield
    finally:
        _in_context.reset(token)


def _parsed(given: GivenMapping) -> dict[str, ByDevice]:
    return {layer_name: _by_device(layer_name, devices) for layer_name, devices in given.items()}


def _by_device(layer_name: str, given: Mapping[Device | str, Repository | ByMode]) -> ByDevice:
    found: dict[str, dict[CapabilityRange | None, ByMode]] = {}
    for key, repositories in given.items():
        device = key if isinstance(key, Device) else Device(key)
        found.setdefault(device.type, {})[device.properties] = _by_mode(layer_name, repositories)
    return found


def _by_mode(layer_name: str, given: Repository | ByMode) -> ByMode:
    by_mode = dict(given) if isinstance(given, Mapping) else {Mode.FALLBACK: given}
    for mode, repository in by_mode.items():
        check_registered(mode)
        if not callable(getattr(repository, "load", None)):
            raise UsageError(
                f"`{repository!r}` is mapped to layer `{layer_name}` and is no repository",
                hint=f'write `LayerRepository("org/name", layer_name="{layer_name}", version=1)`',
            )
    return by_mode


def _merged_devices(below: ByDevice, above: ByDevice) -> ByDevice:
    return {**below, **{device: {**below.get(device, {}), **ranges} for device, ranges in above.items()}}
