"""Where two wheels differ first, and what is said of it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from kernelworks_build.difference import compare

LIBRARY = Path(json.__file__).parents[1] / "lib-dynload"
SIZES = b"\x00" * 64


def wheel(path: Path, members: dict[str, bytes], *, mode: int = 0o100644) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return path


def test_equal_wheels_have_no_difference(tmp_path: Path) -> None:
    first, second = (wheel(tmp_path / name, {"a.py": b"x = 1\n"}) for name in ("first", "second"))
    assert compare(first, second) is None


@pytest.mark.parametrize(
    ("old", "new", "place", "shown"),
    [
        (b"x = 1\ny = 2\n", b"x = 1\ny = 3\n", (), ("@@ -1,2 +1,2 @@", " x = 1", "-y = 2", "+y = 3")),
        (b'{"a":1,"b":[1,2]}', b'{"a":1,"b":[1,3]}', (), ("@@ -4,3 +4,3 @@", "   1,", "-  2", "+  3", "  ]")),
        (b"\xff\x00\x01", b"\xff\x00\x02", ("byte 0x2 of 3",), ("-01", "+02")),
        (b"\xff\x00", b"\xff\x00\x02", ("byte 0x2; 2 != 3 bytes",), ("-(end)", "+02")),
        (b"x = 1\n", b"x = 1\r\n", ("byte 0x5; 6 != 7 bytes",), ("-0a", "+0d 0a")),
    ],
    ids=["text", "json", "bytes", "a longer file", "line ends"],
)
def test_the_first_difference_is_shown_in_the_form_that_its_content_has(
    tmp_path: Path, old: bytes, new: bytes, place: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    first = wheel(tmp_path / "first", {"same": b"", "m": old, "z": b"1"})
    second = wheel(tmp_path / "second", {"same": b"", "m": new, "z": b"2"})
    found = compare(first, second)
    assert found is not None
    assert (found.members, found.place, found.shown) == (("m", "z"), ("m", *place), shown)


def test_what_differs_in_a_shared_object_is_told_by_section_and_offset(tmp_path: Path) -> None:
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415  # the one test that needs it

    original = min((path for path in LIBRARY.glob("*.so")), key=lambda path: path.stat().st_size, default=None)
    if original is None:
        pytest.skip("this interpreter has no shared module to take apart")
    data = bytearray(original.read_bytes())
    with original.open("rb") as stream:
        text = ELFFile(stream).get_section_by_name(".text")["sh_offset"]
    data[text + 5] ^= 0xFF
    found = compare(
        wheel(tmp_path / "first", {"m.so": original.read_bytes()}), wheel(tmp_path / "second", {"m.so": bytes(data)})
    )
    assert found is not None
    assert found.place[:2] == ("m.so", "section .text")
    assert found.place[2].startswith("byte 0x5 of ")


def test_bytes_that_only_begin_like_elf_are_compared_all_the_same(tmp_path: Path) -> None:
    first = wheel(tmp_path / "first", {"m.so": b"\x7fELF" + SIZES})
    second = wheel(tmp_path / "second", {"m.so": b"\x7fELF" + SIZES + b"1"})
    found = compare(first, second)
    assert found is not None
    assert found.place == ("m.so", "byte 0x44; 68 != 69 bytes")


def test_a_member_that_one_of_them_lacks_and_a_mode_are_differences(tmp_path: Path) -> None:
    lacking = compare(wheel(tmp_path / "a", {"x": b""}), wheel(tmp_path / "b", {"x": b"", "y": b""}))
    moded = compare(wheel(tmp_path / "c", {"x": b""}), wheel(tmp_path / "d", {"x": b""}, mode=0o100755))
    assert lacking is not None
    assert (lacking.place, lacking.shown) == (("y",), ("only in the second wheel",))
    assert moded is not None
    assert moded.shown == (f"external_attr: {0o100644 << 16} != {0o100755 << 16}",)


def test_zip_files_whose_members_are_equal_are_told_apart_by_their_order(tmp_path: Path) -> None:
    found = compare(wheel(tmp_path / "a", {"x": b"", "y": b""}), wheel(tmp_path / "b", {"y": b"", "x": b""}))
    assert found is not None
    assert (found.members, found.place[0]) == ((), "the zip file itself")
