from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kernelworks import (
    CUDAProperties,
    Device,
    LayerRepository,
    Mode,
    UsageError,
    register_kernel_mapping,
    use_kernel_mapping,
)
from kernelworks.layers.mapping import current_mapping


def repository(name: str) -> LayerRepository:
    return LayerRepository(f"org/{name}", layer_name="Norm", version=1)


A, B, C = map(repository, "abc")


def on_cpu(layer: str = "Norm") -> Any:
    """What is registered for any CPU in any mode."""
    devices = current_mapping().devices(layer) or {}
    return devices.get("cpu", {}).get(None, {}).get(Mode.FALLBACK)


def test_what_is_registered_holds_from_then_on() -> None:
    register_kernel_mapping({"Norm": {"cpu": A}})
    assert on_cpu() == A
    register_kernel_mapping({"Norm": {"cpu": B}})
    assert on_cpu() == B


def test_registrations_for_other_devices_ranges_and_layers_are_kept() -> None:
    newer = Device("cuda", CUDAProperties(90, 120))
    register_kernel_mapping({"Norm": {"cpu": A, "cuda": A}})
    register_kernel_mapping({"Norm": {newer: B}, "Other": {"cpu": C}})
    devices = current_mapping().devices("Norm")
    assert devices == {
        "cpu": {None: {Mode.FALLBACK: A}},
        "cuda": {None: {Mode.FALLBACK: A}, newer.properties: {Mode.FALLBACK: B}},
    }
    assert on_cpu("Other") == C
    assert current_mapping().devices("Unknown") is None


def test_a_registration_by_mode_replaces_the_former_as_a_whole() -> None:
    register_kernel_mapping({"Norm": {"cpu": {Mode.TRAINING: A, Mode.INFERENCE: B}}})
    register_kernel_mapping({"Norm": {"cpu": {Mode.INFERENCE: C}}})
    assert current_mapping().devices("Norm") == {"cpu": {None: {Mode.INFERENCE: C}}}


def test_without_inheriting_everything_else_is_forgotten() -> None:
    register_kernel_mapping({"Norm": {"cpu": A}})
    register_kernel_mapping({"Other": {"cpu": B}}, inherit_mapping=False)
    assert (on_cpu("Norm"), on_cpu("Other")) == (None, B)


def test_a_context_lies_on_top_and_is_gone_at_its_end() -> None:
    register_kernel_mapping({"Norm": {"cpu": A, "mps": A}})
    with use_kernel_mapping({"Norm": {"cpu": B}}):
        assert on_cpu() == B
        assert current_mapping().devices("Norm") == {
            "cpu": {None: {Mode.FALLBACK: B}},
            "mps": {None: {Mode.FALLBACK: A}},
        }
        with use_kernel_mapping({"Norm": {"mps": C}}, inherit_mapping=False):
            assert on_cpu() is None
        assert on_cpu() == B
    assert on_cpu() == A


def test_a_context_ends_with_an_error_too() -> None:
    with pytest.raises(RuntimeError), use_kernel_mapping({"Norm": {"cpu": B}}):
        raise RuntimeError
    assert on_cpu() is None


def test_what_is_registered_in_a_context_ends_with_it() -> None:
    register_kernel_mapping({"Norm": {"cpu": A}})
    with use_kernel_mapping({}):
        register_kernel_mapping({"Norm": {"cpu": B}})
        assert on_cpu() == B
        register_kernel_mapping({"Other": {"cpu": C}}, inherit_mapping=False)
        assert (on_cpu("Norm"), on_cpu("Other")) == (None, C)
    assert (on_cpu("Norm"), on_cpu("Other")) == (A, None)


def test_a_mapping_that_is_changed_later_changes_nothing() -> None:
    given: dict[str, Any] = {"Norm": {"cpu": {Mode.TRAINING: A}}}
    register_kernel_mapping(given)
    given["Norm"]["cpu"][Mode.INFERENCE] = B
    given["Norm"]["mps"] = B
    assert current_mapping().devices("Norm") == {"cpu": {None: {Mode.TRAINING: A}}}


def test_what_a_program_registers_holds_in_threads_and_what_a_context_holds_does_not() -> None:
    register_kernel_mapping({"Norm": {"cpu": A}})
    inside, looked = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:

        def use() -> Any:
            with use_kernel_mapping({"Norm": {"cpu": B}}):
                inside.set()
                looked.wait()
                return on_cpu()

        theirs = pool.submit(use)
        inside.wait()
        ours = on_cpu()
        looked.set()
        assert (ours, theirs.result()) == (A, B)


def test_tasks_have_contexts_of_their_own() -> None:
    async def use(mapped: LayerRepository) -> Any:
        with use_kernel_mapping({"Norm": {"cpu": mapped}}):
            await asyncio.sleep(0)
            return on_cpu()

    async def both() -> Any:
        return await asyncio.gather(use(A), use(B))

    assert asyncio.run(both()) == [A, B]
    assert on_cpu() is None


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"Norm": {"cdua": A}}, "is not a device type"),
        ({"Norm": {"cpu": "org/norm"}}, "`'org/norm'` is mapped to layer `Norm` and is no repository; write"),
        ({"Norm": {"cpu": {Mode.TRAINING: None}}}, "`None` is mapped to layer `Norm`"),
        ({"Norm": {"cpu": {Mode.TORCH_COMPILE: A}}}, "cannot be registered for Mode.TORCH_COMPILE"),
        ({"Norm": {"cpu": {"training": A}}}, "cannot be registered for `'training'`"),
    ],
)
def test_a_mapping_that_cannot_be_right_is_refused_where_it_is_written(mapping: Any, words: str) -> None:
    for register in (register_kernel_mapping, use_kernel_mapping):
        with pytest.raises(UsageError, match=words):
            register(mapping)
