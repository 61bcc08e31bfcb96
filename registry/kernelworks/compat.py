"""Every rule that decides whether a variant fits a process, and which of several is the best.

The order of those that fit is documented, with its reasons, in `docs/resolution.md`; `rank_of` is that list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelworks.backends import registered
from kernelworks.backends.spec import HostBackend
from kernelworks.binaries.demangle import demangle
from kernelworks.host import HostEnv
from kernelworks.lookup import Absent
from kernelworks.model.cpu_features import single_flags
from kernelworks.model.variant import BackendFacts, DeviceArchs, FrameworkFacts, Platform, PythonAbi, Variant
from kernelworks.model.variant_name import Version2, format_version, parse_version

__all__ = ["Accepted", "Rank", "Reason", "Rejected", "Verdict", "is_known", "judge", "rank_of", "shortfalls"]

Rank = tuple[tuple[int, ...], str]
"""Sorts as `docs/resolution.md` says, the best first."""

_SHOWN = 3

_FRAMEWORK_ORDER = ("torch", "torch-stable-abi", "tvm-ffi", "none")


@dataclass(frozen=True)
class Reason:
    """Why a variant does not fit.

    Attributes:
        text: One short sentence.
        remedy: What would make it fit, or None where nothing here would.
        in_call: Whether the remedy is another argument, and not another machine or installation.
    """

    text: str
    remedy: str | None = None
    in_call: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.text, "remedy": self.remedy}


@dataclass(frozen=True)
class Accepted:
    """`variant` fits; of several, the one with the lowest rank is taken."""

    variant: Variant
    rank: Rank

    def to_json(self) -> dict[str, Any]:
        return {"variant": self.variant.name, "accepted": True, "reasons": []}


@dataclass(frozen=True)
class Rejected:
    """`variant` does not fit, for each of `reasons`; `rank` is what it would have had."""

    variant: Variant
    rank: Rank
    reasons: tuple[Reason, ...]

    def to_json(self) -> dict[str, Any]:
        reasons = [reason.to_json() for reason in self.reasons]
        return {"variant": self.variant.name, "accepted": False, "reasons": reasons}


Verdict = Accepted | Rejected


def judge(variant: Variant, host: HostEnv, backend: str | None = None) -> Verdict:
    """Whether `variant` fits `host`, with every reason if not.

    Args:
        variant: The facts of the variant.
        host: The facts of the process.
        backend: The backend that is asked for; None for the default one of the host. Never another one
            silently: a CUDA torch gets a CPU variant only if told so.
    """
    wanted = backend or host.default_backend
    reasons = (
        *_platform(variant.platform, host),
        *_cpu(variant, host),
        *_python(variant.python_abi, host),
        *_framework(variant.framework, host),
        *_backend(variant.backend, host, wanted),
    )
    rank = rank_of(variant, _offer(host, wanted))
    return Rejected(variant, rank, reasons) if reasons else Accepted(variant, rank)


def is_known(backend: BackendFacts) -> bool:
    """Whether this version knows what `backend` needs."""
    return backend.is_universal or backend.kind in registered()


def rank_of(variant: Variant, offer: HostBackend | None = None) -> Rank:
    """Where `variant` stands among those that fit, on the devices of `offer` if given; the lowest is taken."""
    framework, toolkit = variant.framework.version or (0, 0), variant.backend.version or (0, 0)
    order = (
        _FRAMEWORK_ORDER.index(variant.framework.kind),
        int(variant.backend.is_universal),
        -framework[0],
        -framework[1],
        int(offer is not None and not _is_compiled_for(variant.backend, offer)),
        -len(single_flags(variant.cpu_features)),
        -toolkit[0],
        -toolkit[1],
    )
    return order, variant.name


def shortfalls(variant: Variant, host: HostEnv, absent: Absent) -> tuple[Reason, ...]:
    """Why `variant`, which fits by its facts, does not: for what was looked for on this machine and is `absent`."""
    return tuple(_shortfalls(variant.framework, host, absent))


def _shortfalls(framework: FrameworkFacts, host: HostEnv, absent: Absent) -> Iterator[Reason]:
    if absent.symbols:
        names = [f"`{demangle(name)}`" for name in absent.symbols[:_SHOWN]]
        more = f" and {len(absent.symbols) - _SHOWN} more" if len(absent.symbols) > _SHOWN else ""
        text = f"imports {', '.join(names)}{more}, which the installed torch {host.torch} does not define"
        wanted = framework.version and format_version(framework.version)
        yield Reason(text, wanted and f"install the release of torch {wanted} that it was built for")
    if absent.libraries:
        names = [f"`{name}`" for name in absent.libraries]
        remedy = "install what brings it, or name its folder in LD_LIBRARY_PATH"
        yield Reason(f"needs {', '.join(names)}, which the dynamic linker does not find", remedy)
    for package in absent.packages:
        remedy = f"install it: `pip install {package.package}`"
        yield Reason(f"needs the Python package `{package.package}`, which is not installed", remedy)


def _platform(needs: Platform, host: HostEnv) -> Iterator[Reason]:
    if needs.os not in (None, host.os):
        yield Reason(f"needs the operating system `{needs.os}`, and this is `{host.os}`")
    if needs.cpu not in (None, host.cpu):
        yield Reason(f"needs a `{needs.cpu}` CPU, and this is `{host.cpu}`")
    if needs.glibc and not (host.libc and host.libc.name == "glibc" and host.libc.version >= needs.glibc):
        found = f"is {host.libc}" if host.libc else "is not glibc"
        yield Reason(f"needs glibc {format_version(needs.glibc)} or newer, and this system's C library {found}")


def _cpu(variant: Variant, host: HostEnv) -> Iterator[Reason]:
    if variant.platform.cpu not in (None, host.cpu):
        return  # another CPU has other features: that it is another is told already
    for feature in variant.cpu_features:
        lacking = sorted(single_flags([feature]) - set(host.cpu_features))
        if lacking and not host.cpu_features:
            yield Reason(f"needs a CPU with `{feature}`, and this system does not tell what its CPU has")
        elif lacking:
            yield Reason(f"needs a CPU with `{feature}`, and this one lacks {', '.join(lacking)}")


def _python(needs: PythonAbi, host: HostEnv) -> Iterator[Reason]:
    if not needs.version:
        return
    wanted = format_version(needs.version)
    if host.implementation != "cpython":
        yield Reason(f"needs CPython, and this is `{host.implementation}`", f"use CPython {wanted}")
    if host.free_threaded and not needs.free_threaded:
        yield Reason(
            "needs a Python with the GIL, and this one is free-threaded",
            f"use the usual build of CPython {wanted}",
        )
    if needs.free_threaded and not host.free_threaded:
        yield Reason("needs a free-threaded Python, and this one has the GIL", f"use CPython {wanted}t")
    running = format_version(host.python)
    if needs.kind == "exact" and host.python != needs.version:
        yield Reason(f"needs exactly Python {wanted}, and this is {running}", f"use Python {wanted}")
    if needs.kind == "abi3" and host.python < needs.version:
        yield Reason(f"needs Python {wanted} or newer, and this is {running}", f"use Python {wanted} or newer")


def _framework(needs: FrameworkFacts, host: HostEnv) -> Iterator[Reason]:
    if not needs.version:
        return
    wanted = format_version(needs.version)
    if needs.kind == "tvm-ffi":
        yield from _tvm_ffi(needs.version, host.tvm_ffi)
        return
    exact = needs.kind == "torch"
    remedy = f'install it: `pip install "torch{f"=={wanted}.*" if exact else f">={wanted}"}"`'
    if host.torch is None:
        yield Reason(f"needs torch {wanted}{'' if exact else ' or newer'}, and torch is not installed", remedy)
        return
    torch = parse_version(host.torch)
    if exact and torch != needs.version:
        yield Reason(f"needs exactly torch {wanted}, and this is torch {host.torch}", remedy)
    if not exact and torch < needs.version:
        yield Reason(f"needs torch {wanted} or newer, and this is torch {host.torch}", remedy)
    if needs.cxx11 not in (None, host.cxx11):
        ours, theirs = ("C++11", "older") if needs.cxx11 else ("older", "C++11")
        yield Reason(f"needs a torch with the {ours} string ABI, and this one has the {theirs} one")


def _tvm_ffi(needed: Version2, found: str | None) -> Iterator[Reason]:
    wanted = format_version(needed)
    remedy = f'install it: `pip install "apache-tvm-ffi=={wanted}.*"`'
    if found is None:
        yield Reason(f"needs tvm-ffi {wanted}, and it is not installed", remedy)
    elif parse_version(found) != needed:
        yield Reason(f"needs exactly tvm-ffi {wanted}, and this is tvm-ffi {found}", remedy)


def _offer(host: HostEnv, backend: str) -> HostBackend | None:
    return next((offer for offer in host.backends if offer.name == backend), None)


def _backend(needs: BackendFacts, host: HostEnv, wanted: str) -> Iterator[Reason]:
    if needs.is_universal:
        return
    spec = registered().get(needs.kind)
    if spec is None:
        yield Reason(f"is for backend `{needs.kind}`, which this version of kernelworks does not know")
        return
    offer = _offer(host, needs.kind)
    if needs.kind != wanted:
        remedy = f'ask for it: `backend="{needs.kind}"`' if offer else None
        yield Reason(f"is for backend `{needs.kind}`, and `{wanted}` is wanted", remedy, in_call=True)
    if offer is None:
        yield Reason(f"needs a torch that is built for {spec.label}", f"install a torch build for {spec.label}")
        return
    if spec.toolkit and needs.version and offer.version and not spec.toolkit.accepts(needs.version, offer.version):
        yield Reason(
            f"is built with {spec.label} {format_version(needs.version)}, and torch with"
            f" {format_version(offer.version)}",
            f"install a torch built with {spec.label} {format_version(needs.version)}: {spec.toolkit.rule}",
        )
    yield from _devices(needs, offer)


def _devices(needs: BackendFacts, offer: HostBackend) -> Iterator[Reason]:
    spec = registered()[needs.kind]
    if spec.runs is None:
        return
    if not offer.devices:
        yield Reason(f"needs a {spec.label} device, and none is visible", f"make a {spec.label} device visible")
    if not needs.archs.sass and not needs.archs.ptx:
        return  # no device code inside that could be for the wrong device
    inside = ", ".join(needs.archs.spelled())
    for device in offer.devices:
        if not spec.runs(needs.archs, device):
            yield Reason(f"has device code for {inside}, which a visible device of arch {device} cannot run")
    oldest = spec.driver(needs, offer.devices) if spec.driver else None
    if oldest and offer.driver and offer.driver < oldest:
        yield Reason(
            f"needs a driver for {spec.label} {format_version(oldest)} or newer, and this one is for"
            f" {format_version(offer.driver)}",
            "update the driver",
        )


def _is_compiled_for(needs: BackendFacts, offer: HostBackend) -> bool:
    """Whether every visible device finds machine code, so that no driver has to compile any."""
    runs = registered()[offer.name].runs if offer.name in registered() else None
    if runs is None or not needs.archs.ptx:
        return True
    return all(runs(DeviceArchs(needs.archs.sass), device) for device in offer.devices)
