"""Which archs a component is compiled for."""

from __future__ import annotations

import random
import re

import pytest

from kernelworks.model.variant import DeviceArchs
from kernelworks_build.archs import Arch, ArchKind, arch_kinds, arch_order, kind_of, union
from kernelworks_build.capabilities import Selection, by_backend, select
from kernelworks_build.errors import PlanError
from kernelworks_build.matrix import Matrix

TOOLKIT = ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0", "12.1+PTX")
GFX, OTHER_GFX = ("gfx90a", "gfx942", "gfx1100"), ("gfx906", "gfx1030")


def test_no_request_means_the_default_list_of_the_toolkit() -> None:
    assert select([], TOOLKIT) == Selection(
        DeviceArchs(("7.5", "8.0", "8.6", "9.0", "10.0", "12.0", "12.1"), ("12.1",)), ()
    )
    assert select([], GFX, OTHER_GFX) == Selection(DeviceArchs(GFX), ())


@pytest.mark.parametrize(
    ("requested", "sass", "ptx", "without_code"),
    [
        (["9.0", "8.0"], ("8.0", "9.0"), (), ()),
        (["9.0a"], ("9.0a",), (), ()),
        (["9.0", "9.0a"], ("9.0a",), (), ()),
        (["8.0+PTX"], ("8.0",), ("8.0",), ()),
        (["10.0f", "8.0", "8.0"], ("8.0", "10.0f"), (), ()),
        (["10.0f", "10.0a"], ("10.0a", "10.0f"), (), ()),
        (["11.8", "8.0"], ("8.0",), (), ("11.8",)),
        (["10.3a"], (), (), ("10.3a",)),
        (["7.0", "9.0+PTX"], ("9.0",), ("9.0",), ("7.0",)),
    ],
)
def test_a_request_gives_code_or_is_reported(
    requested: list[str], sass: tuple[str, ...], ptx: tuple[str, ...], without_code: tuple[str, ...]
) -> None:
    assert select(requested, TOOLKIT) == Selection(DeviceArchs(sass, ptx), without_code)


@pytest.mark.parametrize(
    ("requested", "archs", "without_code"),
    [
        (["gfx1100", "gfx90a"], ("gfx90a", "gfx1100"), ()),
        (["gfx1030", "gfx906"], ("gfx906", "gfx1030"), ()),
        (["gfx90a:xnack-", "gfx90a:xnack+", "gfx942"], ("gfx90a:xnack+", "gfx90a:xnack-", "gfx942"), ()),
        (["gfx942:sramecc+:xnack-"], ("gfx942:sramecc+:xnack-",), ()),
        (["gfx940", "gfx942", "gfx950:xnack+"], ("gfx942",), ("gfx940", "gfx950:xnack+")),
    ],
)
def test_a_request_for_a_gfx_arch_gives_code_or_is_reported(
    requested: list[str], archs: tuple[str, ...], without_code: tuple[str, ...]
) -> None:
    assert select(requested, GFX, OTHER_GFX) == Selection(DeviceArchs(archs), without_code)


@pytest.mark.parametrize("requested", [["gfx90a", "gfx90a:xnack+"], ["gfx90a:xnack+", "gfx90a:sramecc+", "gfx942"]])
def test_requests_that_name_different_features_of_one_gfx_arch_exclude_each_other(requested: list[str]) -> None:
    names = ", ".join(f"`{text}`" for text in sorted(requested[:2]))
    with pytest.raises(ValueError, match=re.escape(f"{names} exclude each other: all code for gfx90a in a binary")):
        select(requested, GFX)


@pytest.mark.parametrize("text", ["", "9", "sm_90", "9.0b", "9.0+ptx", "9.0a+PTXX", "100.00", "-8.0", "gfx942"])
def test_what_is_no_capability_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a compute capability; one looks like "):
        select(["8.0", text], TOOLKIT)


@pytest.mark.parametrize(
    "text",
    [
        *("", "gfx", "GFX942", "942", "9.0", "gfx942+PTX", "gfx942:", "gfx942:xnack", "gfx942:tgsplit+"),
        "gfx942:xnack+:sramecc+",  # a target id has its features in alphabetical order
        "gfx1100:xnack+",  # which that processor does not have
    ],
)
def test_what_is_no_gfx_arch_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a ROCm architecture; one looks like gfx942, gfx1100 or gfx90a:xnack"):
        select(["gfx942", text], GFX)


@pytest.mark.parametrize("text", ["8.0", "9.0a", "10.0f", "gfx942", "gfx90a:sramecc-:xnack+"])
def test_the_name_of_an_arch_is_what_was_written(text: str) -> None:
    arch = kind_of(text).parse(text)
    assert arch
    assert arch.name == text


def test_ptx_is_asked_for_besides_and_is_not_part_of_the_name() -> None:
    assert kind_of("12.0a+PTX").parse("12.0a+PTX") == Arch("12.0", "a", portable=True)


@pytest.mark.parametrize("kind", arch_kinds().values(), ids=arch_kinds())
def test_what_is_known_and_the_examples_are_of_one_kind_and_in_order(kind: ArchKind) -> None:
    assert {kind_of(text).what for text in (*kind.known, *kind.like)} == {kind.what}
    assert list(kind.known) == sorted(kind.known, key=arch_order)


def test_archs_are_ordered_by_their_numbers_and_then_by_their_suffixes() -> None:
    ordered = ["gfx906", "gfx90a", "gfx942:sramecc+", "gfx942:xnack+", "gfx950", "gfx1030", "gfx1100", "gfx1201"]
    assert sorted(random.Random(7).sample(ordered, len(ordered)), key=arch_order) == ordered
    assert union([DeviceArchs(("12.0", "9.0a"), ("9.0",)), DeviceArchs(("9.0", "10.0f", "9.0a"))]) == DeviceArchs(
        ("9.0", "9.0a", "10.0f", "12.0"), ("9.0",)
    )


def test_a_list_of_archs_is_sorted_to_the_backends_they_are_for() -> None:
    toolkits = {"cpu": (), "one": TOOLKIT, "two": GFX}
    assert by_backend(["9.0", "gfx942", "12.0+PTX"], toolkits) == {"one": ["9.0", "12.0+PTX"], "two": ["gfx942"]}
    assert by_backend(["11.8"], toolkits) == {"one": ["11.8"]}, "that its toolkits lack it is said of each variant"


@pytest.mark.parametrize(
    ("requested", "astray"), [(["gfx942", "9.0"], "`gfx942`"), (["sm_90", "gfx1", "9.0"], "`sm_90`, `gfx1`")]
)
def test_archs_for_no_backend_of_the_kernel_are_refused_with_what_is_supported(
    requested: list[str], astray: str
) -> None:
    with pytest.raises(PlanError, match=f"^{astray} is for no backend of this kernel") as caught:
        by_backend(requested, {"cpu": (), "one": TOOLKIT})
    question = "did you mean `9.0`? " if "sm_90" in requested else ""
    assert caught.value.hint == f"{question}supported for `one`: 7.5, 8.0, 8.6, 9.0, 10.0, 12.0, 12.1+PTX"
    with pytest.raises(PlanError) as caught:
        by_backend(requested, {"cpu": ()})
    assert caught.value.hint == "none of its backends is compiled for an architecture"


def test_every_toolkit_of_the_matrix_has_code_for_known_archs_alone() -> None:
    for row in Matrix.load().backends.values():
        for toolkit in row.toolkits:
            listed = (*toolkit.archs, *toolkit.other_archs)
            archs = [kind_of(text).parse(text) for text in listed]
            assert [arch and arch.base in kind_of(arch.base).known for arch in archs] == [True] * len(listed)
