"""Which archs a component is compiled for."""

from __future__ import annotations

import pytest

from kernelworks.model.variant import DeviceArchs
from kernelworks_build.capabilities import Capability, Selection, select

TOOLKIT = ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0", "12.1+PTX")


def test_no_request_means_the_whole_list_of_the_toolkit() -> None:
    assert select([], TOOLKIT) == Selection(
        DeviceArchs(("7.5", "8.0", "8.6", "9.0", "10.0", "12.0", "12.1"), ("12.1",)), ()
    )


@pytest.mark.parametrize(
    ("requested", "sass", "ptx", "without_code"),
    [
        (["9.0", "8.0"], ("8.0", "9.0"), (), ()),
        (["9.0a"], ("9.0a",), (), ()),
        (["9.0", "9.0a"], ("9.0a",), (), ()),
        (["8.0+PTX"], ("8.0",), ("8.0",), ()),
        (["10.0f", "8.0", "8.0"], ("8.0", "10.0f"), (), ()),
        (["11.8", "8.0"], ("8.0",), (), ("11.8",)),
        (["10.3a"], (), (), ("10.3a",)),
        (["7.0", "9.0+PTX"], ("9.0",), ("9.0",), ("7.0",)),
    ],
)
def test_a_request_gives_code_or_is_reported(
    requested: list[str], sass: tuple[str, ...], ptx: tuple[str, ...], without_code: tuple[str, ...]
) -> None:
    assert select(requested, TOOLKIT) == Selection(DeviceArchs(sass, ptx), without_code)


@pytest.mark.parametrize("text", ["", "9", "sm_90", "9.0b", "9.0+ptx", "9.0a+PTXX", "100.00", "-8.0"])
def test_what_is_no_capability_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a compute capability"):
        select([text], TOOLKIT)


@pytest.mark.parametrize("text", ["8.0", "9.0a", "10.0f", "12.0+PTX"])
def test_a_capability_prints_as_it_was_written(text: str) -> None:
    assert str(Capability.parse(text)) == text
