from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks import CUDAProperties, Device, Mode, ROCMProperties, UsageError
from kernelworks.backends.spec import HostBackend
from kernelworks.layers import device as device_module
from kernelworks.layers.device import Target, target_of
from kernelworks.layers.mapping import _parsed
from kernelworks.layers.verdict import _narrowest
from kernelworks.model.variant_name import known_backends

GPU, OTHER_GPU = "cuda", "rocm"


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> Any:
        raise NotImplementedError


def narrowest(capability: int | None, *limits: tuple[int, int] | None) -> str | None:
    ranges = {Device(GPU, CUDAProperties(*limit)) if limit else Device(GPU): Named(str(limit)) for limit in limits}
    by_range = _parsed({"Norm": ranges})["Norm"][GPU]
    target = SimpleNamespace(capability=lambda: capability)
    found = _narrowest(by_range, target)  # type: ignore[arg-type]
    return None if found is None else found[Mode.FALLBACK].name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("capability", "limits", "chosen"),
    [
        (80, [(75, 89)], "(75, 89)"),
        (75, [(75, 89)], "(75, 89)"),
        (89, [(75, 89)], "(75, 89)"),
        (90, [(75, 89)], None),
        (90, [(75, 89), None], "None"),
        (80, [(70, 100), (75, 89), None], "(75, 89)"),
        (80, [(75, 85), (80, 90)], "(80, 90)"),
        (None, [(75, 89)], None),
        (None, [(75, 89), None], "None"),
        (None, [None], "None"),
    ],
)
def test_the_narrowest_range_that_holds_the_device_is_taken(
    capability: int | None, limits: list[tuple[int, int] | None], chosen: str | None
) -> None:
    for order in itertools.permutations(limits):
        assert narrowest(capability, *order) == chosen


RANGES = st.tuples(st.integers(50, 120), st.integers(0, 30)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.integers(50, 120), st.lists(RANGES, min_size=1, max_size=6, unique=True), st.randoms())
def test_the_order_of_registration_never_matters(capability: int, limits: list[tuple[int, int]], random: Any) -> None:
    shuffled = random.sample(limits, len(limits))
    assert narrowest(capability, *limits) == narrowest(capability, *shuffled)


@pytest.mark.parametrize("ends", [(90, 75), (True, 89), ("75", 89), (7.5, 8.9)])
def test_a_range_has_two_ends_in_order(ends: Any) -> None:
    with pytest.raises(UsageError, match="capabilit"):
        CUDAProperties(*ends)


def test_a_device_type_that_nobody_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"`cdua` is not a device type .*; did you mean `cuda`\?"):
        Device("cdua")
    with pytest.raises(UsageError, match="is not a device type"):
        Device(3)  # type: ignore[arg-type]


def test_properties_are_those_of_the_device_type() -> None:
    assert Device(GPU, CUDAProperties(75, 89)) == Device(GPU, CUDAProperties(75, 89))
    assert Device(OTHER_GPU, ROCMProperties(90, 94)).properties == ROCMProperties(90, 94)
    assert CUDAProperties(75, 89) != ROCMProperties(75, 89)
    with pytest.raises(UsageError, match="no properties of device type `rocm`; they are ROCMProperties"):
        Device(OTHER_GPU, CUDAProperties(75, 89))
    with pytest.raises(UsageError, match="no properties of device type `cpu`; it has none"):
        Device("cpu", CUDAProperties(75, 89))


def on(kind: str, index: int | None = None) -> Any:
    """A model whose only parameter is on that torch device."""
    parameter = SimpleNamespace(device=SimpleNamespace(type=kind, index=index))
    return SimpleNamespace(parameters=lambda: iter([parameter]), buffers=lambda: iter([]))


def test_a_model_is_kernelized_for_where_its_parameters_are() -> None:
    assert target_of(on("cpu"), None) == Target("cpu")
    assert target_of(on("mps", 0), None) == Target("mps", 0)
    assert target_of(on("npu"), None).backend == "cann"


@pytest.mark.parametrize("backend", [GPU, OTHER_GPU])
def test_what_torch_calls_cuda_is_what_torch_is_built_for(this_process: Any, backend: str) -> None:
    this_process(backends=(HostBackend(backend, (7, 0), ()), HostBackend("cpu")))
    assert target_of(on("cuda", 1), None) == Target(backend, 1)
    assert target_of(on("cpu"), SimpleNamespace(type="cuda", index=None)) == Target(backend)  # type: ignore[arg-type]


def test_a_device_may_be_named_with_its_index() -> None:
    assert target_of(on("cpu"), "cuda:1") == Target("cuda", 1)
    assert str(Target("cuda", 1)) == "cuda:1"
    for wrong in ("cuda:", "cuda:x", "meta", ""):
        with pytest.raises(UsageError, match="is not a device type"):
            target_of(on("cpu"), wrong)


def test_a_torch_device_without_kernels_is_told() -> None:
    with pytest.raises(UsageError, match="`meta` is not a device type"):
        target_of(on("meta"), None)


def test_a_model_without_tensors_needs_a_device() -> None:
    empty = SimpleNamespace(parameters=lambda: iter([]), buffers=lambda: iter([]))
    with pytest.raises(UsageError, match="no parameter whose device could be taken; name it"):
        target_of(empty, None)  # type: ignore[arg-type]


def test_the_table_of_devices_names_known_backends_only() -> None:
    assert {row["backend"] for row in device_module._devices().values()} == set(known_backends())
