"""`--arch` sorts architectures of every kind to the backends of a kernel, and says what it does with each."""

from __future__ import annotations

import pytest

from kernelworks.errors import UsageError
from kernelworks.model.variant import DeviceArchs
from kernelworks_build.cli.project import plan_project
from kernelworks_build.errors import PlanError
from kernelworks_build.manifest import parse_manifest
from kernelworks_build.planned import BuildPlan
from kernelworks_build.toolchain.lock import LockSet

HEAD = """
[general]
name = "scale"
version = 1
edition = 5
license = "Apache-2.0"
backends = [{backends}]

[torch]
src = ["binding.cpp"]
stable-abi = "2.11"
"""
COMPONENTS = {
    "cpu": '\n[kernel.a]\nbackend = "cpu"\ndepends = []\nsrc = ["a.cpp"]\n',
    "cuda": '\n[kernel.b]\nbackend = "cuda"\ndepends = []\nsrc = ["b.cu"]\ncuda-capabilities = ["8.0"]\n',
    "rocm": '\n[kernel.c]\nbackend = "rocm"\ndepends = []\nsrc = ["c.hip"]\nrocm-archs = ["gfx90a:xnack-", "gfx906"]\n',
}


def plan(archs: str | None, *backends: str) -> BuildPlan:
    text = HEAD.format(backends=", ".join(f'"{name}"' for name in backends))
    manifest, diagnostics = parse_manifest((text + "".join(map(COMPONENTS.get, backends))).encode(), "build.toml")
    assert manifest, diagnostics
    return plan_project(manifest, LockSet.load(), archs)


def archs_of(found: BuildPlan) -> dict[str, DeviceArchs]:
    return {item.backend.kind: item.backend.archs for item in found.variants}


def test_archs_are_sorted_to_the_backends_that_have_such() -> None:
    found = plan("9.0,gfx942,12.0+PTX,gfx1030", "cpu", "cuda", "rocm")
    assert archs_of(found) == {
        "cpu": DeviceArchs(),
        "cuda": DeviceArchs(("9.0", "12.0"), ("12.0",)),
        "rocm": DeviceArchs(("gfx942", "gfx1030")),
    }


def test_a_backend_of_which_no_arch_is_given_keeps_those_of_the_manifest() -> None:
    assert archs_of(plan("9.0", "cuda", "rocm"))["rocm"] == DeviceArchs(("gfx906", "gfx90a:xnack-"))
    assert archs_of(plan("gfx942", "cuda", "rocm"))["cuda"] == DeviceArchs(("8.0",))
    assert archs_of(plan(None, "cuda", "rocm"))["cuda"] == DeviceArchs(("8.0",))


def test_an_arch_that_the_toolkit_lacks_is_reported() -> None:
    found = plan("gfx942,gfx940", "rocm")
    assert archs_of(found) == {"rocm": DeviceArchs(("gfx942",))}
    (skipped,) = found.skipped
    assert skipped.reason.startswith("no code for `gfx940` with this toolkit (supported: gfx906, gfx908, gfx90a,")
    with pytest.raises(PlanError, match="no code for `gfx940`, so `c` would have none"):
        plan("gfx940", "rocm")


@pytest.mark.parametrize(("archs", "backend"), [("gfx942", "cuda"), ("9.0", "rocm"), ("9.0", "cpu"), ("sm_90", "cuda")])
def test_an_arch_for_no_backend_of_the_kernel_is_an_error(archs: str, backend: str) -> None:
    with pytest.raises(PlanError, match=f"`{archs}` is for no backend of this kernel"):
        plan(archs, backend)


@pytest.mark.parametrize("archs", ["", " ", ",", " , "])
def test_a_list_without_an_arch_is_an_error_and_not_the_whole_manifest(archs: str) -> None:
    with pytest.raises(UsageError, match="names no architecture"):
        plan(archs, "cuda")


def test_blanks_around_archs_do_not_count() -> None:
    assert plan(" 9.0, 12.0 ", "cuda") == plan("9.0,12.0", "cuda")


def test_archs_that_no_binary_holds_together_are_an_error_with_what_is_supported() -> None:
    with pytest.raises(PlanError, match=r"`gfx90a`, `gfx90a:xnack\+` exclude each other") as caught:
        plan("gfx90a,gfx90a:xnack+", "rocm")
    assert caught.value.hint
    assert caught.value.hint.startswith("supported: gfx906, ")
