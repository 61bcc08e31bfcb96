"""NVIDIA GPUs.

Toolkit: CUDA's minor version compatibility lets a binary of 13.0 run wherever 13.2 does, within one major;
the other direction would need entry points that torch's runtime may lack (CUDA Compatibility, NVIDIA).

Archs (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility"): machine code for `8.6`
runs on 8.x with x >= 6, for `9.0a` on 9.0 only, for the family `10.0f` on 10.x. PTX is compiled by the
driver for the same or any newer device, except that `9.0a` stays at 9.0 and `10.0f` within its major.

Without a visible device nothing fits, for no arch could be checked: on such a machine a CUDA torch gets the
CPU variant, if told so by `backend=`.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from kernelworks.backends.spec import Backend, HostBackend, Toolkit
from kernelworks.model.variant import DeviceArchs
from kernelworks.model.variant_name import Version2, parse_version

__all__ = ["BACKEND"]


def _detect(torch: Any) -> HostBackend | None:
    built_with = torch and torch.version.cuda
    if not built_with:
        return None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    capabilities = sorted({torch.cuda.get_device_capability(device) for device in range(count)})
    return HostBackend("cuda", parse_version(built_with), tuple(f"{major}.{minor}" for major, minor in capabilities))


def _minor_compatible(needs: Version2, offer: Version2) -> bool:
    return needs[0] == offer[0] and needs[1] <= offer[1]


def _runs(archs: DeviceArchs, device: str) -> bool:
    target = parse_version(device)
    return any(_sass_runs(*found, target) for found in map(_split, archs.sass)) or any(
        _ptx_runs(*found, target) for found in map(_split, archs.ptx)
    )


def _split(arch: str) -> tuple[Version2, str]:
    """`9.0a` as ((9, 0), `a`); what is no capability, as one that no device has."""
    found = re.fullmatch(r"(\d+)\.(\d)([af]?)", arch)
    return ((int(found[1]), int(found[2])), found[3]) if found else ((sys.maxsize, 0), "a")


def _sass_runs(capability: Version2, suffix: str, device: Version2) -> bool:
    return capability == device if suffix == "a" else _minor_compatible(capability, device)


def _ptx_runs(capability: Version2, suffix: str, device: Version2) -> bool:
    return _sass_runs(capability, suffix, device) if suffix else capability <= device


BACKEND = Backend(
    name="cuda",
    label="CUDA",
    rank=10,
    detect=_detect,
    toolkit=Toolkit("the same major and this minor or a newer one", _minor_compatible),
    runs=_runs,
)
