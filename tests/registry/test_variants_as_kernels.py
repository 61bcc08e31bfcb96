"""Which variants of other builders fit, and which is taken, compared with the `kernels` package: by name alone.

Its rules are held against ours for any set of variants; where ours differ on purpose, a case of its own says so.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks.backends.spec import HostBackend
from kernelworks.compat import Accepted
from kernelworks.errors import UsageError
from kernelworks.host import HostEnv, Libc
from kernelworks.model.foreign import outlined
from kernelworks.model.variant_name import VariantName, known_versions
from kernelworks.resolve import chosen, weigh

DEVICES = {"cpu": (), "cuda": ("9.0",), "rocm": ("gfx942",)}
SPELLED = {"cpu": "cpu", "cuda": "cu", "rocm": "rocm"}
BACKENDS = {
    f"{SPELLED[kind]}{''.join(map(str, version or ()))}": HostBackend(kind, version, devices)
    for kind, devices in DEVICES.items()
    for version in known_versions(kind) or [None]
}
FRAMEWORKS = [
    f"{kind}{major}{minor}{tag}"
    for major, minor in known_versions("torch")
    for kind, tag in (("torch-stable-abi", ""), ("torch", ""), ("torch", "-cxx11"), ("torch", "-cxx98"))
]
ARCH = [
    f"{framework}-{backend}-{platform}"
    for framework, backend, platform in itertools.product(
        FRAMEWORKS, BACKENDS, ("x86_64-linux", "aarch64-linux", "aarch64-darwin", "x86_64-windows")
    )
]
NOARCH = ["torch-cpu", "torch-cuda", "torch-rocm", "torch-xpu", "torch-npu", "torch-universal"]


def machine(backend: str, torch: str = "2.13.0", **facts: Any) -> HostEnv:
    """A process whose torch is built for `backend`, as names spell it."""
    offers = dict.fromkeys([BACKENDS[backend], HostBackend("cpu")])
    made = HostEnv((3, 12), "cpython", False, torch, True, tuple(offers), "x86_64", "linux", Libc("glibc", (2, 36)))
    return dataclasses.replace(made, **facts)


def fitting(names: Iterable[str], host: HostEnv, files: tuple[str, ...] = ()) -> list[str]:
    """Those of `names` that fit, the best first."""
    verdicts = weigh((outlined(name, files) for name in names), host)
    return [verdict.variant.name for verdict in verdicts if isinstance(verdict, Accepted)]


@pytest.fixture(scope="session")
def theirs() -> Any:
    """The module of `kernels` with its rules."""
    return pytest.importorskip("kernels.variants", reason="the package `kernels` is not installed")


def fitting_there(theirs: Any, names: Iterable[str], backend: str, host: HostEnv) -> set[str]:
    """As `fitting`, by the rules of `kernels`."""
    torch = theirs.parse(".".join(str(host.torch).split(".")[:2]))
    variants, offer = list(map(theirs.parse_variant, names)), theirs.parse_backend(backend)
    accepted, _ = theirs._resolve_variant_for_system(variants, offer, host.cpu, host.os, torch, host.cxx11, None)
    return {variant.variant_str for variant in accepted}


@given(
    st.lists(st.sampled_from(ARCH + NOARCH), max_size=60, unique=True),
    st.sampled_from([name for name in BACKENDS if not name.startswith("rocm")]),
    st.sampled_from(["2.4.1", "2.9.0", "2.13.0"]),
    st.sampled_from([{}, {"cxx11": False}, {"cpu": "aarch64"}, {"cpu": "aarch64", "os": "darwin", "cxx11": None}]),
)
def test_what_fits_is_what_fits_there(
    theirs: Any, names: list[str], backend: str, torch: str, facts: dict[str, Any]
) -> None:
    host = machine(backend, torch, **facts)
    assert set(fitting(names, host)) == fitting_there(theirs, names, backend, host)


@given(st.sampled_from(ARCH + NOARCH))
def test_a_name_is_read_as_it_is_there(theirs: Any, name: str) -> None:
    there, here = theirs.parse_variant(name), VariantName.parse(name)
    assert there.variant_str == str(here) == name
    if here.framework_version:
        assert (there.framework.version.release, there.arch.backend.name) == (here.framework_version, here.backend)


LINUX = "x86_64-linux"


@pytest.mark.parametrize(
    ("names", "host", "taken"),
    [
        (["torch213-cu126", "torch213-cu128", "torch213-cu130"], machine("cu129"), "torch213-cu128"),
        (["torch213-cu128", "torch213-cu129", "torch213-cu126"], machine("cu129"), "torch213-cu129"),
        (["torch213-cu126"], machine("cu129"), "torch213-cu126"),
        (["torch213-cu128"], machine("cu126"), None),
        (["torch213-cu130", "torch213-cu131"], machine("cu129"), None),
        (["torch213-cu118", "torch213-cu121"], machine("cu118"), "torch213-cu118"),
        (["torch213-cxx11-cu126", "torch213-cxx98-cu128"], machine("cu129"), "torch213-cxx11-cu126"),
        (["torch212-cpu", "torch213-cpu", "torch214-cpu"], machine("cpu"), "torch213-cpu"),
        (["torch-stable-abi211-cpu", "torch-stable-abi214-cpu"], machine("cpu"), "torch-stable-abi211-cpu"),
        (["torch-stable-abi29-cu128", "torch-stable-abi210-cu126"], machine("cu129"), "torch-stable-abi210-cu126"),
        (["torch29-cxx11-cpu"], machine("cpu", "2.9.0a0+git145a3a7.nv25.10"), "torch29-cxx11-cpu"),
        (["torch213-cpu"], machine("cu130"), None),
        (["torch213-rocm63"], machine("rocm63"), "torch213-rocm63"),
        (["torch213-xpu20251"], machine("cpu"), None),
        (["tvm-ffi01-cpu"], machine("cpu"), None),
        (["torch213-cpu"], machine("cpu", cpu="aarch64"), None),
    ],
)
def test_of_several_the_same_is_taken_as_there(names: list[str], host: HostEnv, taken: str | None) -> None:
    found = chosen(weigh((outlined(f"{name}-{LINUX}", ()) for name in names), host))
    assert (found and found.name) == (taken and f"{taken}-{LINUX}")


@pytest.mark.parametrize(
    ("names", "host", "order"),
    [
        pytest.param(
            ["torch-stable-abi213-cu128", "torch213-cu126"],
            machine("cu129"),
            ["torch213-cu126", "torch-stable-abi213-cu128"],
            id="the exact build comes before the stable ABI",
        ),
        pytest.param(
            ["torch213-rocm70", "torch213-rocm71", "torch213-rocm64"],
            machine("rocm71"),
            ["torch213-rocm71", "torch213-rocm70"],
            id="an older minor of ROCm fits",
        ),
    ],
)
def test_what_is_decided_otherwise_than_there(names: list[str], host: HostEnv, order: list[str]) -> None:
    assert fitting([f"{name}-{LINUX}" for name in names], host) == [f"{name}-{LINUX}" for name in order]


def test_without_compiled_code_for_this_torch_the_one_for_the_backend_comes_before_the_universal_one() -> None:
    names = ["torch-universal", "torch-cuda", "torch-cpu", "torch-rocm", f"torch213-cu130-{LINUX}"]
    assert fitting(names, machine("cu130")) == [f"torch213-cu130-{LINUX}", "torch-cuda", "torch-universal"]
    assert fitting(names, machine("cpu", "2.12.0")) == ["torch-cpu", "torch-universal"]


def test_a_free_threaded_python_takes_only_what_is_not_compiled() -> None:
    free = machine("cpu", free_threaded=True)
    assert fitting([f"torch213-cpu-{LINUX}"], free, ("_ops.abi3.so",)) == []
    assert fitting(["torch-cpu"], free) == ["torch-cpu"]


@pytest.mark.parametrize("name", ["torch213-cu1210-x86_64-linux", "torch1010-cpu-x86_64-linux", "torch-foo-bar"])
def test_a_name_that_is_guessed_there_is_no_variant_here(theirs: Any, name: str) -> None:
    assert theirs.parse_variant(name).variant_str
    with pytest.raises(UsageError, match="is not a"):
        VariantName.parse(name)
