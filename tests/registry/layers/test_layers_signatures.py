"""What programs written for the `kernels` package call, against what it offers itself."""

from __future__ import annotations

import inspect

import pytest

import kernelworks

NAMES = (
    "CUDAProperties",
    "Device",
    "FuncRepository",
    "LayerRepository",
    "LocalFuncRepository",
    "LocalLayerRepository",
    "LockedFuncRepository",
    "LockedLayerRepository",
    "ROCMProperties",
    "kernelize",
    "register_kernel_mapping",
    "replace_kernel_forward_from_hub",
    "use_kernel_forward_from_hub",
    "use_kernel_func_from_hub",
    "use_kernel_mapping",
    "use_kernelized_func",
)


@pytest.fixture(scope="module")
def anchor() -> object:
    return pytest.importorskip("kernels", reason="the package whose programs must run is not installed")


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_the_anchor_takes_is_taken(anchor: object, name: str) -> None:
    theirs = list(inspect.signature(getattr(anchor, name)).parameters.values())
    ours = list(inspect.signature(getattr(kernelworks, name)).parameters.values())
    offered = {parameter.name: parameter for parameter in ours}
    for parameter in theirs:
        assert (offered[parameter.name].kind, offered[parameter.name].default) == (parameter.kind, parameter.default)
    known = [parameter.name for parameter in theirs]
    assert [parameter.name for parameter in ours if parameter.name in known] == known
    added = [parameter for parameter in ours if parameter.name not in known]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in added)
    assert all(parameter.default is not parameter.empty for parameter in added)


@pytest.mark.parametrize("name", ["Mode", "KernelizeFallback"])
def test_the_flags_are_those_of_the_anchor(anchor: object, name: str) -> None:
    members = {key for key in getattr(anchor, name).__members__ if not key.startswith("_")}
    assert set(getattr(kernelworks, name).__members__) == members
