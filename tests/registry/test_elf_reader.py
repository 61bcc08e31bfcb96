"""The reader of shared objects against other readers of the same files, and against bytes that lie."""

from __future__ import annotations

import _ctypes
import random
import shutil
import struct
import subprocess
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelworks.binaries.elf import Elf, ElfError, check, open_elf

if not hasattr(_ctypes, "__file__"):
    pytest.skip("this Python has no extension module in a file of its own", allow_module_level=True)

REAL = Path(_ctypes.__file__)
BYTES = REAL.read_bytes()


def read_all(data: bytes) -> None:
    elf = Elf(data)
    names = [item.name for item in elf.imports()]
    assert isinstance(elf.needed, tuple)
    elf.defined([*names[:20], "PyInit__ctypes"])


def test_what_is_read_is_what_pyelftools_reads() -> None:
    with REAL.open("rb") as stream:
        reference = ELFFile(stream)
        needed = tuple(tag.needed for tag in reference.get_section_by_name(".dynamic").iter_tags("DT_NEEDED"))
        undefined = {
            symbol.name: symbol["st_info"]["bind"] == "STB_WEAK"
            for symbol in reference.get_section_by_name(".dynsym").iter_symbols()
            if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name
        }
    with open_elf(REAL) as elf:
        assert elf.needed == needed
        imports = list(elf.imports())
        assert elf.defined(["PyInit__ctypes", "PyInit_nothing", *undefined]) == {"PyInit__ctypes"}
    assert {item.name: item.weak for item in imports} == undefined
    versioned = {item.name for item in imports if item.versioned}
    assert any(name.startswith("mem") for name in versioned)  # glibc's have a version, Python's have none
    assert not any(name.startswith("Py") for name in versioned)


@pytest.mark.parametrize("library", ["libc10.so", "libtorch_cpu.so"])
def test_a_thousand_names_are_found_in_torch_as_pyelftools_lists_them(library: str) -> None:
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("needs torch, whose libraries are read")
    path = Path(spec.origin).parent / "lib" / library
    with path.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".dynsym")
        picked = [table.get_symbol(at) for at in random.Random(7).sample(range(1, table.num_symbols()), 1000)]
        listed = {symbol.name: symbol["st_shndx"] != "SHN_UNDEF" for symbol in picked if symbol.name}
    with open_elf(path) as elf:
        assert elf.defined([*listed, *(f"{name}x" for name in listed)]) == {name for name in listed if listed[name]}


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_symbols_are_found_whichever_hash_table_there_is(tmp_path: Path, style: str) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler, to link with another hash table")
    source = "int there(void);\nint here(void) { return 1; }\nint calls(void) { return there(); }\n"
    (tmp_path / "a.c").write_text(source)
    command = [compiler, "-shared", "-fPIC", f"-Wl,--hash-style={style}", "-o", "a.so", "a.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with open_elf(tmp_path / "a.so") as elf:
        assert elf.defined(["here", "calls", "there", "nowhere"]) == {"here", "calls"}
        assert "there" in {item.name for item in elf.imports()}


def test_a_whole_file_is_accepted_as_a_path_and_as_bytes() -> None:
    check(REAL)
    check(str(REAL))
    check(BYTES)
    check(REAL, Elf(BYTES).cpu)


@given(st.integers(0, len(BYTES) - 1))
def test_a_file_cut_short_anywhere_is_refused(size: int) -> None:
    with pytest.raises(ElfError):
        check(BYTES[:size])


@settings(max_examples=300)
@given(st.data())
def test_no_wrong_byte_does_more_than_be_refused(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, 1023) | st.integers(0, len(BYTES) - 8))
    wrong = data.draw(st.binary(min_size=1, max_size=8))
    damaged = BYTES[:at] + wrong + BYTES[at + len(wrong) :]
    with suppress(ElfError):
        read_all(damaged)


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        (0, b"PK\3\4", "an ELF file"),
        (4, b"\1", "a 64-bit little-endian ELF file"),
        (5, b"\2", "a 64-bit little-endian ELF file"),
        (16, struct.pack("<H", 1), "a shared object"),
        (32, struct.pack("<Q", 2**64 - 1), "the table of segments"),
        (40, struct.pack("<Q", 2**63), "the table of sections"),
        (54, struct.pack("<H", 57), "56 bytes per entry in the table of segments"),
    ],
)
def test_a_header_that_cannot_be_is_refused_in_words(at: int, value: bytes, expected: str) -> None:
    with pytest.raises(ElfError) as refusal:
        check(BYTES[:at] + value + BYTES[at + len(value) :])
    assert refusal.value.expected.startswith(expected)


def test_code_for_another_machine_is_refused() -> None:
    other = BYTES[:18] + struct.pack("<H", 40) + BYTES[20:]
    with pytest.raises(ElfError) as refusal:
        check(other, "x86_64")
    assert (refusal.value.expected, refusal.value.got) == ("code for x86_64", "code for machine 40")


def test_an_empty_file_is_no_shared_object(tmp_path: Path) -> None:
    (tmp_path / "a.so").touch()
    with pytest.raises(ElfError, match="expected an ELF file, got 0 bytes"):
        check(tmp_path / "a.so")
    with pytest.raises(ElfError, match="an ELF file"):
        check(b"")
