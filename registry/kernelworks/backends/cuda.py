"""NVIDIA GPUs.

Toolkit: CUDA's minor version compatibility lets a binary of 13.0 run wherever 13.2 does, within one major;
the other direction would need entry points that torch's runtime may lack (CUDA Compatibility, NVIDIA).

Archs (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility"): machine code for `8.6`
runs on 8.x with x >= 6, for `9.0a` on 9.0 only, for the family `10.0f` on 10.x. PTX is compiled by the
driver for the same or any newer device, except that `9.0a` stays at 9.0 and `10.0f` within its major.

Driver: machine code runs with any driver of the toolkit's major; PTX needs one that knows the toolkit's own
version of PTX ("CUDA Compatibility", application considerations).

Without a visible device nothing fits, for no arch could be checked: on such a machine a CUDA torch gets the
CPU variant, if told so by `backend=`.
"""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any

from kernelworks.backends.spec import FORWARD_WITHIN_MAJOR, Backend, HostBackend
from kernelworks.model.variant import BackendFacts, DeviceArchs
from kernelworks.model.variant_name import Version2, parse_version

__all__ = ["BACKEND"]


def _detect(torch: Any) -> HostBackend | None:
    built_with = torch and getattr(torch.version, "cuda", None)
    if not built_with:
        return None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    capabilities = sorted({torch.cuda.get_device_capability(device) for device in range(count)})
    devices = tuple(f"{major}.{minor}" for major, minor in capabilities)
    return HostBackend("cuda", parse_version(built_with), devices, _driver())


def _driver() -> Version2 | None:
    """What the driver itself says; it need not be initialised for that."""
    version = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed else (version.value // 1000, version.value % 1000 // 10)


def _oldest_driver(needs: BackendFacts, devices: tuple[str, ...]) -> Version2 | None:
    compiled = DeviceArchs(needs.archs.sass)
    uses_ptx = any(not _runs(compiled, device) for device in devices) and bool(needs.archs.ptx)
    return needs.version if uses_ptx or needs.version is None else (needs.version[0], 0)


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
    return capability == device if suffix == "a" else capability[0] == device[0] and capability <= device


def _ptx_runs(capability: Version2, suffix: str, device: Version2) -> bool:
    return _sass_runs(capability, suffix, device) if suffix else capability <= device


BACKEND = Backend(
    name="cuda",
    label="CUDA",
    rank=10,
    detect=_detect,
    toolkit=FORWARD_WITHIN_MAJOR,
    runs=_runs,
    driver=_oldest_driver,
)
