"""What the audit knows of the symbols of a ROCm build: which lists hold, and what stays open."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kernelworks_build.audit.policy import Policy
from kernelworks_build.toolchain.lock import Artifact, Lock, LockSet, torch_lock
from kernelworks_build.toolchain.symbol_list import exported, symbols

RUNTIME = Path(__file__).parent / "fixtures" / "rocm_load" / "hip-runtime-7.2.toml"
LOCKS = LockSet.load()
POLICY = Policy.load()
TOOLKIT = symbols(LOCKS.symbol_list("rocm-7.2"))


def is_unlisted(name: str) -> bool:
    return bool(POLICY.unlisted_symbols["rocm"].fullmatch(name))


def test_every_library_that_kernels_call_is_in_the_list_of_the_toolkit() -> None:
    launch = {"__hipRegisterFatBinary", "__hipPushCallConfiguration", "hipLaunchKernel", "hipGetDevicePropertiesR0600"}
    libraries = {"hipblasCreate", "hipfftPlan1d", "hiprandGenerateUniform", "hipsolverCreate", "hipsparseCreate"}

    assert launch | libraries < TOOLKIT


def test_a_name_that_is_listed_is_not_left_open() -> None:
    in_c = [name for name in TOOLKIT if POLICY.toolkit_symbols["rocm"].fullmatch(name)]

    assert len(in_c) > 2000
    assert [name for name in in_c if is_unlisted(name)] == []


@pytest.mark.network
def test_the_list_has_all_that_the_runtime_exports_but_the_names_of_its_versions(
    unpacked_debs: Callable[[Iterable[Artifact]], Path],
) -> None:
    lock = Lock.parse(RUNTIME.read_text(encoding="utf-8"), "the lock of HIP's runtime")
    folder = unpacked_debs(item for item in lock.artifacts if item.name.startswith("libamdhip64"))
    with (folder / "libamdhip64.so.7").open("rb") as library:
        found = exported(library)

    assert found <= TOOLKIT
    assert "hipLaunchKernel" in found
    assert not any(re.fullmatch(r"hip_\d\.\d", name) for name in found)


def test_what_names_no_device_and_is_exported_by_a_torch_without_devices_is_in_the_list_of_its_release() -> None:
    """Such names come from the same sources in every build of a release: one that is not listed is nowhere."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("this interpreter has no torch")
    version = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    release, build = re.findall(r"__version__ = '([\d.]+)\+?(\w*)'", version)[0]
    if build != "cpu" or torch_lock(release) not in LOCKS.locks:
        pytest.skip(f"torch {release}+{build} is not a locked release without devices")
    names: set[str] = set()
    for library in ("libc10.so", "libtorch_cpu.so"):
        with Path(spec.origin).with_name("lib").joinpath(library).open("rb") as file:
            names |= exported(file)

    bare = {name for name in names if POLICY.torch_symbols.fullmatch(name) and not is_unlisted(name)}

    assert len(bare) > 10_000
    assert bare <= symbols(LOCKS.symbol_list(torch_lock(release)))
