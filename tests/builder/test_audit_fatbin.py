"""The reader of NVIDIA's fat binaries on real device code; `fixtures/fatbin/make.sh` made it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from kernelworks.model.variant import DeviceArchs
from kernelworks_build.archs import union
from kernelworks_build.audit.device_code import FatBinary, Image, read_device_code
from kernelworks_build.audit.elf import Section
from kernelworks_build.errors import AuditError

CODE = Path(__file__).parent / "fixtures" / "fatbin"


def read(data: bytes) -> list[FatBinary]:
    return list(read_device_code(io.BytesIO(data), "_x.abi3.so", Section(".nv_fatbin", 0, len(data))))


@pytest.mark.parametrize(
    ("name", "archs"),
    [
        ("sass-8.0-9.0-12.0", DeviceArchs(("8.0", "9.0", "12.0"))),
        ("sass-9.0-ptx-9.0", DeviceArchs(("9.0",), ("9.0",))),
        ("sass-9.0a-ptx-9.0a", DeviceArchs(("9.0a",), ("9.0a",))),
        ("sass-10.0f-10.3a", DeviceArchs(("10.0f", "10.3a"))),
        ("ptx-12.0f", DeviceArchs((), ("12.0f",))),
        ("relocatable-9.0", DeviceArchs(("9.0",))),
    ],
)
def test_archs_are_read_from_the_image_headers(name: str, archs: DeviceArchs) -> None:
    (found,) = read((CODE / f"{name}.bin").read_bytes())
    assert found.archs == archs


def test_the_objects_of_a_linked_section_are_told_apart_across_padding() -> None:
    first, second = (CODE / "sass-9.0-ptx-9.0.bin").read_bytes(), (CODE / "ptx-12.0f.bin").read_bytes()
    found = read(first + bytes(24) + second + bytes(8))
    assert [(item.offset, item.archs.ptx) for item in found] == [(0, ("9.0",)), (len(first) + 24, ("12.0f",))]
    assert union(item.archs for item in found) == DeviceArchs(("9.0",), ("9.0", "12.0f"))


def test_an_image_of_an_unknown_kind_is_neither_sass_nor_ptx() -> None:
    data = bytearray((CODE / "ptx-12.0f.bin").read_bytes())
    data[16] = 8
    (found,) = read(bytes(data))
    assert found.images == (Image("other", "12.0f"),)
    assert found.archs == DeviceArchs()


@pytest.mark.parametrize("cut", [1, 15, 20, 60, 300])
def test_a_section_that_ends_inside_a_fat_binary_is_refused(cut: int) -> None:
    with pytest.raises(AuditError, match=r"`_x.abi3.so`, byte 0 of \d+ is neither padding nor a whole fat binary"):
        read((CODE / "ptx-12.0f.bin").read_bytes()[:cut])


def test_bytes_that_are_no_fat_binary_are_refused_with_their_position() -> None:
    data = (CODE / "ptx-12.0f.bin").read_bytes()
    with pytest.raises(AuditError, match=f"byte {len(data) + 8} of {len(data) + 16} is neither padding"):
        read(data + bytes(8) + b"trailing")


@pytest.mark.parametrize(("field", "value"), [(20, b"\xff\xff\xff\x7f"), (20, b"\0\0\0\0"), (24, b"\xff" * 8)])
def test_an_image_whose_sizes_leave_its_fat_binary_is_refused(field: int, value: bytes) -> None:
    data = bytearray((CODE / "ptx-12.0f.bin").read_bytes())
    data[field : field + len(value)] = value
    with pytest.raises(AuditError, match="byte 16 of 320 is an image that leaves its fat binary"):
        read(bytes(data))


def test_no_flipped_byte_makes_the_reader_fail_in_another_way() -> None:
    whole = (CODE / "ptx-12.0f.bin").read_bytes()
    verdicts = set()
    for position in range(96):
        data = bytearray(whole)
        data[position] ^= 0xFF
        try:
            verdicts.add(len(read(bytes(data))))
        except AuditError:
            verdicts.add(0)
    assert verdicts == {0, 1}
