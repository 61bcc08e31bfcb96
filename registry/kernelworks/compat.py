"""Every rule that decides whether a variant fits a process, and which of several is the best.

The order of the variants that fit, best first; it is total and depends on nothing but the variants:

1. framework: built for exactly this torch, then torch's stable ABI, then tvm-ffi, then none;
2. the newest framework version (of several stable-ABI builds: the highest floor);
3. the highest toolkit version;
4. the variant's name, in the order of its characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelworks.backends import registered
from kernelworks.backends.spec import HostBackend
from kernelworks.host import HostEnv
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi, Variant
from kernelworks.model.variant_name import format_version, parse_version

__all__ = ["Accepted", "Rank", "Reason", "Rejected", "Verdict", "judge", "rank_of"]

Rank = tuple[int, int, int, int, int, str]
"""Sorts as the module's docstring says, the best first."""

_FRAMEWORK_ORDER = ("torch", "torch-stable-abi", "tvm-ffi", "none")


@dataclass(frozen=True)
class Reason:
    """Why a variant does not fit: one short sentence, and what would make it fit, where something would."""

    text: str
    remedy: str | None = None

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
    reasons = (
        *_platform(variant.platform, host),
        *_python(variant.python_abi, host),
        *_framework(variant.framework, host),
        *_backend(variant.backend, host, backend or host.default_backend),
    )
    rank = rank_of(variant)
    return Rejected(variant, rank, reasons) if reasons else Accepted(variant, rank)


def rank_of(variant: Variant) -> Rank:
    """Where `variant` stands among those that fit; the lowest is taken."""
    framework, toolkit = variant.framework.version or (0, 0), variant.backend.version or (0, 0)
    return (
        _FRAMEWORK_ORDER.index(variant.framework.kind),
        -framework[0],
        -framework[1],
        -toolkit[0],
        -toolkit[1],
        variant.name,
    )


def _platform(needs: Platform, host: HostEnv) -> Iterator[Reason]:
    if needs.os not in (None, host.os):
        yield Reason(f"needs the operating system `{needs.os}`, and this is `{host.os}`")
    if needs.cpu not in (None, host.cpu):
        yield Reason(f"needs a `{needs.cpu}` CPU, and this is `{host.cpu}`")
    if needs.glibc and not (host.libc and host.libc.name == "glibc" and host.libc.version >= needs.glibc):
        found = f"is {host.libc}" if host.libc else "is not glibc"
        yield Reason(f"needs glibc {format_version(needs.glibc)} or newer, and this system's C library {found}")


def _python(needs: PythonAbi, host: HostEnv) -> Iterator[Reason]:
    if not needs.version:
        return
    wanted = format_version(needs.version)
    if host.implementation != "cpython":
        yield Reason(f"needs CPython, and this is `{host.implementation}`", f"use CPython {wanted}")
    if host.free_threaded:
        yield Reason(
            "needs a Python with the GIL, and this one is free-threaded",
            f"use the usual build of CPython {wanted}",
        )
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
        yield Reason(f"needs tvm-ffi {wanted}, for which this version of kernelworks has no loader")
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


def _backend(needs: BackendFacts, host: HostEnv, wanted: str) -> Iterator[Reason]:
    spec = registered().get(needs.kind)
    if spec is None:
        yield Reason(f"is for backend `{needs.kind}`, which this version of kernelworks does not know")
        return
    offer = next((offer for offer in host.backends if offer.name == needs.kind), None)
    if needs.kind != wanted:
        remedy = f'ask for it: `backend="{needs.kind}"`' if offer else None
        yield Reason(f"is for backend `{needs.kind}`, and `{wanted}` is wanted", remedy)
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
