"""The reader of AMD's offload bundles on real device code; `fixtures/offload/make.sh` made it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelworks.model.variant import DeviceArchs
from kernelworks_build.archs import arch_kinds, union
from kernelworks_build.audit.device_code import FatBinary, Image, is_loadable, read_device_code
from kernelworks_build.audit.device_code.amdgpu import machines
from kernelworks_build.audit.elf import Section
from kernelworks_build.errors import AuditError

CODE = Path(__file__).parent / "fixtures" / "offload"
FEATURES, LINKED = ((CODE / f"{name}.bin").read_bytes() for name in ("features", "two-units"))
FIRST = 0x1000
"""Where the first code object of a bundle lies; after it the second, with the same alignment."""


def read(data: bytes) -> list[FatBinary]:
    return list(read_device_code(io.BytesIO(data), "_x.abi3.so", Section(".hip_fatbin", 0, len(data))))


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def test_every_unit_with_a_kernel_has_a_bundle_in_the_linked_section() -> None:
    first, second = read(LINKED)
    assert (first.offset, second.offset) == (0, 0x4000)
    assert first.images == (Image("sass", "gfx1100", ("_Z3addPf",)), Image("sass", "gfx942", ("_Z3addPf",)))
    assert [image.kernels for image in second.images] == [("_Z3mulPf", "_Z3negPf")] * 2
    assert union([first.archs, second.archs]) == DeviceArchs(("gfx942", "gfx1100"))
    assert is_loadable(first)


def test_the_features_of_a_target_id_are_part_of_the_arch() -> None:
    (found,) = read(FEATURES)
    assert found.archs.sass == ("gfx90a:sramecc+:xnack+", "gfx90a:sramecc-:xnack-")


def test_the_offset_is_that_in_the_file() -> None:
    data = b"before" + LINKED
    found = list(read_device_code(io.BytesIO(data), "x.so", Section(".hip_fatbin", 6, len(LINKED))))
    assert [item.offset for item in found] == [6, 0x4006]


def test_a_section_of_padding_alone_holds_nothing() -> None:
    assert read(bytes(5000)) == read(b"") == []


def test_other_sections_are_not_read() -> None:
    assert list(read_device_code(io.BytesIO(b"7" * 24), "x.so", Section(".hipFatBinSegment", 0, 24))) == []


def test_a_compressed_bundle_is_refused_with_the_way_out() -> None:
    with pytest.raises(AuditError, match=r"byte 0 of 1688 is a compressed bundle, .* --no-offload-compress"):
        read((CODE / "compressed.bin").read_bytes())


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (LINKED + b"trailing", "byte 34432 of 34440 is neither padding nor an offload bundle"),
        (LINKED[:40], "is a bundle that is cut short"),
        (LINKED[:100], "is a bundle that is cut short"),
        (patched(LINKED, 24, b"\xff" * 8), "is a bundle "),  # count of entries
        (patched(LINKED, 48, b"\xff" * 8), "is a bundle that is cut short"),  # length of an id
        (LINKED[:0x3000], "entry `hipv4-amdgcn-amd-amdhsa--gfx942` overlaps what is before it or leaves the section"),
        (patched(LINKED, 32, b"\x08\x00"), "entry `host-x86_64-unknown-linux-gnu-` overlaps what is before it"),
        (patched(LINKED, 40, b"\x08"), "is a bundle with 8 bytes for `host-x86_64-unknown-linux-gnu-`"),
        (
            LINKED.replace(b"--gfx942", b"--gfx950", 1),
            "code for `gfx942` as its entry `hipv4-amdgcn-amd-amdhsa--gfx950`",
        ),
        (LINKED.replace(b"hipv4-", b"other-", 1), "code for `gfx1100` as its entry `other-amdgcn-amd-amdhsa--gfx1100`"),
        (
            patched(FEATURES, FIRST + 48, b"\x3f\x05"),
            "code for `gfx90a` as its entry `hipv4-amdgcn-amd-amdhsa--gfx90a:",
        ),
        (patched(FEATURES, FIRST + 48, b"\xff"), "code for `machine 0xff:sramecc+:xnack+` as its entry"),
        (patched(FEATURES, FIRST + 18, b"\x3e"), "is a bundle with an entry that is no code object"),
        (patched(FEATURES, FIRST + 8, b"\x01"), "a code object of the unknown ABI version 1"),
        (patched(FEATURES, FIRST + 40, b"\xff" * 8), "a code object that cannot be read"),  # table of sections
    ],
)
def test_what_is_not_known_is_refused_with_its_place(data: bytes, fault: str) -> None:
    with pytest.raises(AuditError, match=re.escape(fault)) as caught:
        read(data)
    assert "`.hip_fatbin` of `_x.abi3.so`, byte " in caught.value.message


@settings(deadline=None)
@given(
    st.sampled_from([FEATURES, LINKED]),
    st.lists(st.tuples(st.integers(0, 300) | st.integers(0, len(LINKED)), st.binary(min_size=1, max_size=8))),
    st.none() | st.integers(0, len(LINKED)),
)
def test_garbled_and_truncated_bundles_are_read_or_refused(
    data: bytes, patches: list[tuple[int, bytes]], end: int | None
) -> None:
    for at, new in patches:
        data = patched(data, at, new)
    with contextlib.suppress(AuditError):
        assert all(isinstance(item, FatBinary) for item in read(data[:end]))


def test_every_known_arch_has_a_machine_number() -> None:
    assert set(arch_kinds()["rocm-archs"].known) <= set(machines().values())
