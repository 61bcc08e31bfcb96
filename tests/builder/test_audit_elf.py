"""The ELF reader, held against files of the host's compiler."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelworks_build.audit.elf import ElfFacts, Symbol, VersionNeed, read_elf
from kernelworks_build.errors import AuditError

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine to make ELF files with")

SOURCE = """
extern int needed(void), plain(void);
extern int maybe(void) __attribute__((weak));
__thread int counter;
__attribute__((visibility("hidden"))) int hidden(void) { return 1; }
__attribute__((weak)) int replaceable(void) { return hidden(); }
int PyInit__x(void) { return needed() + plain() + (maybe ? maybe() : 0) + ++counter; }
"""


def gcc(out: Path, source: str, *arguments: str | Path) -> Path:
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-x", "none", *arguments, "-o", out]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    script = folder / "versions"
    script.write_text("OLD_1.0 { global: needed; };")
    stub = gcc(
        folder / "libold.so.1",
        "int needed(void) { return 0; }",
        f"-Wl,--version-script={script}",
        "-Wl,-soname,libold.so.1",
    )
    return gcc(folder / "_x.so", SOURCE, "-ftls-model=initial-exec", stub, "-Wl,-soname,_x.so,-s,-z,noexecstack")


def test_every_fact_of_a_shared_object_is_read(library: Path) -> None:
    found = read_elf(library, "sub/_x.so")
    (text,) = (section for section in found.sections if section.name == ".text")
    assert 0 < text.offset < text.offset + text.size < library.stat().st_size
    assert found == ElfFacts(
        path="sub/_x.so",
        kind="DYN",
        machine=platform.machine(),
        bits=64,
        soname="_x.so",
        needed=("libold.so.1",),
        search_path=(),
        version_needs=(VersionNeed("libold.so.1", "OLD_1.0"),),
        exports=(
            Symbol("PyInit__x", "global"),
            Symbol("counter", "global"),
            Symbol("replaceable", "weak"),
        ),
        undefined=(
            Symbol("maybe", "weak"),
            Symbol("needed", "global", "OLD_1.0"),
            Symbol("plain", "global"),
        ),
        stripped=True,
        exec_stack=False,
        text_relocations=False,
        tls=True,
        sections=found.sections,
    )
    assert found.python_modules == ("_x",)


def test_search_paths_executable_stacks_and_unique_symbols_are_seen(tmp_path: Path) -> None:
    source = 'int one; __asm__(".type one, @gnu_unique_object");'
    flags = ["-Wl,-rpath,/opt/lib:$ORIGIN", "-Wl,-z,execstack"]
    old = read_elf(gcc(tmp_path / "old.so", source, *flags, "-Wl,--disable-new-dtags"), "old.so")
    new = read_elf(gcc(tmp_path / "new.so", source, *flags, "-Wl,--enable-new-dtags"), "new.so")
    assert old.search_path == new.search_path == ("/opt/lib:$ORIGIN",)
    assert old.exec_stack
    assert not old.stripped
    assert old.exports == (Symbol("one", "unique"),)


def test_an_object_file_is_told_from_a_shared_object(tmp_path: Path) -> None:
    subprocess.run(["gcc", "-c", "-x", "c", "-", "-o", tmp_path / "x.o"], input=b"int x;", check=True)
    found = read_elf(tmp_path / "x.o", "x.o")
    assert (found.kind, found.needed, found.exports) == ("REL", (), ())


def test_a_file_cut_anywhere_is_refused_and_says_so(library: Path, tmp_path: Path) -> None:
    data = library.read_bytes()
    cut = tmp_path / "_x.so"
    for size in [*range(0, len(data), 97), len(data) - 1]:
        cut.write_bytes(data[:size])
        with pytest.raises(AuditError, match=r"`_x\.so` is (cut short|not a readable ELF file): "):
            read_elf(cut, "_x.so")


def test_garbage_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"\x7fELF" + bytes(range(256)) * 4)
    with pytest.raises(AuditError, match=r"`x\.so` is not a readable ELF file"):
        read_elf(tmp_path / "x.so", "x.so")


def test_section_headers_that_hide_what_the_loader_reads_are_refused(library: Path, tmp_path: Path) -> None:
    data = bytearray(library.read_bytes())
    data[0x28:0x30] = bytes(8)  # e_shoff
    data[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    (tmp_path / "_x.so").write_bytes(data)
    with pytest.raises(AuditError, match="no section where its dynamic segment has DT_VERNEED"):
        read_elf(tmp_path / "_x.so", "_x.so")


def test_no_flipped_byte_makes_the_reader_fail_in_another_way(library: Path, tmp_path: Path) -> None:
    whole = library.read_bytes()
    headers = [*range(4, 0x40), *range(0x40, 0x1C0, 5), *range(len(whole) - 15 * 64, len(whole), 11)]
    flipped = tmp_path / "_x.so"
    outcomes: set[type] = set()
    for position in headers:
        data = bytearray(whole)
        data[position] ^= 0xFF
        flipped.write_bytes(data)
        try:
            outcomes.add(type(read_elf(flipped, "_x.so")))
        except AuditError as error:
            outcomes.add(type(error))
    assert outcomes == {ElfFacts, AuditError}
