"""AMD GPUs.

Toolkit: versions are HIP's, for its runtime keeps its SONAME, and what it exports, within one major of them
(`libamdhip64.so.7`): a binary of 7.0 runs wherever 7.2 does. A kernel gets `hip*` from the libraries that torch itself
is linked to.

Archs: a code object names its target id (AMDGPU code object, "Target ID"): `gfx942` runs on every gfx942, and with
`:xnack-` or `:sramecc+` only where the device has that feature in that state. There is no code that newer devices
compile: nothing runs on another gfx arch.

Some builds of torch tell their version as `torch.version.hip`, some as `torch.version.rocm`, some as both: those
differ where a release of ROCm has an older number for its HIP (ROCm 10.0 has HIP 7.15).
"""

from __future__ import annotations

import re
from typing import Any

from kernelworks.backends.spec import FORWARD_WITHIN_MAJOR, Backend, HostBackend
from kernelworks.model.variant import DeviceArchs
from kernelworks.model.variant_name import parse_version

__all__ = ["BACKEND"]

_TARGET_ID = re.compile(r"(gfx[0-9a-f]+)((?::[a-z]+[+-])*)")


def _detect(torch: Any) -> HostBackend | None:
    versions = (getattr(torch.version, name, None) for name in ("hip", "rocm")) if torch else ()  # HIP's counts
    built_with = next(filter(None, versions), None)
    if not built_with:
        return None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0  # HIP devices, under CUDA's name
    archs = {torch.cuda.get_device_properties(device).gcnArchName for device in range(count)}
    return HostBackend("rocm", parse_version(built_with), tuple(sorted(archs)))


def _runs(archs: DeviceArchs, device: str) -> bool:
    target = _TARGET_ID.fullmatch(device)
    if not target:
        msg = f"`{device}` is not the target id of a device"
        raise ValueError(msg)
    processor, features = target[1], set(target[2].split(":"))
    found = (_TARGET_ID.fullmatch(arch) for arch in archs.sass)
    return any(code[1] == processor and features.issuperset(code[2].split(":")) for code in found if code)


BACKEND = Backend(
    name="rocm",
    label="ROCm",
    rank=20,
    detect=_detect,
    toolkit=FORWARD_WITHIN_MAJOR,
    runs=_runs,
)
