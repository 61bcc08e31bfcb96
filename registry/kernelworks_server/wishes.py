"""Which profiles are as somebody wishes: decided by the loader's own rules about archs and torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelworks.backends import registered
from kernelworks.model.variant import ARCH_PATTERN, BackendFacts, FrameworkFacts
from kernelworks.model.variant_name import Version2, parse_version
from kernelworks_server.errors import BadRequest
from kernelworks_server.profiles import Profile

__all__ = ["Wish", "serves"]

_TORCH = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?", re.ASCII)


@dataclass(frozen=True)
class Wish:
    """What a variant must be for: all of backend, device arch and torch (major, minor)."""

    backend: str | None = None
    arch: str | None = None
    torch: Version2 | None = None

    @classmethod
    def of(cls, backend: str = "", arch: str = "", torch: str = "") -> Wish:
        """The wish that a form spells out; empty fields wish for nothing.

        Raises:
            BadRequest: A field makes no sense.
        """
        if arch and not re.fullmatch(ARCH_PATTERN, arch):
            raise BadRequest(f"`{arch[:40]}` is not a device arch", hint="archs look like `9.0`, `8.6` or `gfx942`")
        if torch and not _TORCH.fullmatch(torch):
            raise BadRequest(f"`{torch[:40]}` is not a version of torch", hint="versions look like `2.13`")
        return cls(backend or None, arch or None, parse_version(torch) if torch else None)


def serves(profile: Profile, wish: Wish) -> bool:
    """Whether this profile has the backend, runs on the arch, and takes the torch that are wished for."""
    return (
        wish.backend in {None, profile.backend.kind}
        and (wish.arch is None or _runs(profile.backend, wish.arch))
        and (wish.torch is None or _takes(profile.framework, wish.torch))
    )


def _runs(backend: BackendFacts, arch: str) -> bool:
    if arch in {*backend.archs.sass, *backend.archs.ptx}:
        return True
    spec = registered().get(backend.kind)
    try:
        return bool(spec and spec.runs and spec.runs(backend.archs, arch))
    except ValueError:  # an arch of another backend
        return False


def _takes(framework: FrameworkFacts, torch: Version2) -> bool:
    if framework.version is None:
        return True
    if framework.kind == "torch-stable-abi":
        return framework.version <= torch
    return framework.kind == "torch" and framework.version == torch
