"""Kernels in the place of layers of a model: which ones may be replaced, by what, and `kernelize`."""

from __future__ import annotations

from kernelworks.layers.device import CUDAProperties, Device, ROCMProperties
from kernelworks.layers.kernel import restoring_kernels
from kernelworks.layers.mapping import register_kernel_mapping, use_kernel_mapping
from kernelworks.layers.marks import (
    replace_kernel_forward_from_hub,
    use_kernel_forward_from_hub,
    use_kernel_func_from_hub,
    use_kernelized_func,
)
from kernelworks.layers.mode import Mode
from kernelworks.layers.model import kernelize, unkernelize
from kernelworks.layers.report import KernelizeReport, kernelize_report
from kernelworks.layers.repository import (
    FuncRepository,
    LayerRepository,
    LocalFuncRepository,
    LocalLayerRepository,
    LockedFuncRepository,
    LockedLayerRepository,
)
from kernelworks.layers.verdict import KernelizeFallback

__all__ = [
    "CUDAProperties",
    "Device",
    "FuncRepository",
    "KernelizeFallback",
    "KernelizeReport",
    "LayerRepository",
    "LocalFuncRepository",
    "LocalLayerRepository",
    "LockedFuncRepository",
    "LockedLayerRepository",
    "Mode",
    "ROCMProperties",
    "kernelize",
    "kernelize_report",
    "register_kernel_mapping",
    "replace_kernel_forward_from_hub",
    "restoring_kernels",
    "unkernelize",
    "use_kernel_forward_from_hub",
    "use_kernel_func_from_hub",
    "use_kernel_mapping",
    "use_kernelized_func",
]
