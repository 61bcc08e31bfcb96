"""What a process is good for, judged from its facts alone: which variants would load in it, and what is amiss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelworks.backends import registered
from kernelworks.backends.spec import HostBackend
from kernelworks.compat import Reason
from kernelworks.host import HostEnv
from kernelworks.model.variant import BackendFacts
from kernelworks.model.variant_name import VariantName, Version2, format_version, known_versions, parse_version

__all__ = ["Suit", "problems", "suits"]

_USUAL_GLIBC = (2, 28)  # of manylinux_2_28, for which published kernels are built


@dataclass(frozen=True)
class Suit:
    """Variants that would load.

    Attributes:
        name: The best of them.
        others: Which others, in words; empty where there are none.
        backend: What to ask for.
        default: Whether that backend is taken without asking.
    """

    name: str
    others: str
    backend: str
    default: bool

    def to_json(self) -> dict[str, Any]:
        return vars(self)


def suits(host: HostEnv) -> tuple[Suit, ...]:
    """The names of the variants that would load, if they were published, the best first for each backend.

    A backend without a visible device runs nothing, and is left out.
    """
    return tuple(suit for offer in host.backends if not _is_idle(offer) for suit in _suits(host, offer))


def problems(host: HostEnv) -> tuple[Reason, ...]:
    """What keeps this process from loading most published kernels, with remedies."""
    return (*_software_problems(host), *_device_problems(host.backends[0]))


def _is_idle(offer: HostBackend) -> bool:
    spec = registered().get(offer.name)
    return spec is None or (spec.runs is not None and not offer.devices)


def _suits(host: HostEnv, offer: HostBackend) -> Iterator[Suit]:
    default = offer.name == host.default_backend
    toolkits = _toolkits(offer)
    if host.torch:
        torch = parse_version(host.torch)
        for kind, cxx11, floors in (
            ("torch", host.cxx11, ""),
            ("torch-stable-abi", None, "every older stable ABI"),
        ):
            name = VariantName(kind, torch, cxx11, offer.name, offer.version, host.cpu, host.os)
            yield Suit(str(name), "; ".join(filter(None, (floors, toolkits))), offer.name, default)
    if host.tvm_ffi:
        release = parse_version(host.tvm_ffi)
        name = VariantName("tvm-ffi", release, None, offer.name, offer.version, host.cpu, host.os)
        yield Suit(str(name), toolkits, offer.name, default)
    yield Suit(
        str(VariantName("torch", None, None, offer.name, None, None, None)), "`torch-universal`", offer.name, default
    )


def _toolkits(offer: HostBackend) -> str:
    """The other toolkits whose variants run, from the table of known versions."""
    spec = registered().get(offer.name)
    if spec is None or spec.toolkit is None or offer.version is None:
        return ""
    others = [one for one in known_versions(offer.name) if one != offer.version]
    accepted = [format_version(one) for one in others if spec.toolkit.accepts(one, offer.version)]
    return f"{spec.label} {', '.join(accepted)}" if accepted else ""


def _software_problems(host: HostEnv) -> Iterator[Reason]:
    if host.torch is None:
        yield Reason("torch is not installed, and most kernels are built for it", "install it: `pip install torch`")
    if host.implementation != "cpython":
        yield Reason(f"compiled kernels need CPython, and this is `{host.implementation}`", "use CPython")
    if host.free_threaded:
        yield Reason(
            "this Python is free-threaded, and loads only what is compiled for it; most kernels use abi3",
            "use the usual build of CPython",
        )
    if host.os == "linux" and not (host.libc and host.libc.name == "glibc" and host.libc.version >= _USUAL_GLIBC):
        found = host.libc or "unknown"
        yield Reason(f"most kernels need glibc {format_version(_USUAL_GLIBC)}, and this system's C library is {found}")


def _device_problems(offer: HostBackend) -> Iterator[Reason]:
    spec = registered().get(offer.name)
    if spec is None or spec.runs is None:
        return
    oldest = spec.driver(BackendFacts(offer.name, offer.version), offer.devices) if spec.driver else None
    if oldest and (offer.driver is None or offer.driver < oldest):
        found = f"is for {format_version(offer.driver)}" if offer.driver else "cannot be found"
        yield Reason(
            f"torch is built with {spec.label} {_text(offer.version)}, and the driver {found}",
            f"install a driver for {spec.label} {format_version(oldest)} or newer",
        )
    if not offer.devices:
        yield Reason(f"torch is built for {spec.label}, and no device is visible", "make a device visible")


def _text(version: Version2 | None) -> str:
    return format_version(version) if version else "of an unknown version"
