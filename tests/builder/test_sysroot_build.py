"""The sysroot as it is built, and programs built against it, down to a real glibc 2.31."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelworks_build.action import Tree
from kernelworks_build.audit.elf import read_elf
from kernelworks_build.audit.policy import Policy
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.sysroot import CC, CXX, LINK_FLAGS, SYSTEM_LIBRARIES
from kernelworks_build.toolchain.sysroot.extract import exported
from kernelworks_build.toolchain.sysroot.symbols import LIBRARIES, read_symbols
from kernelworks_build.toolchain.sysroot.tree import lock_sysroot

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

SOURCES = Path(__file__).parent / "fixtures" / "sysroot"
STUBS = "usr/lib/x86_64-linux-gnu"


@pytest.fixture(scope="module")
def trees(toolchain: Callable[..., dict[str, Tree]]) -> dict[str, Tree]:
    return toolchain("host", "sysroot")


def link(out: str, *inputs: str) -> tuple[str, ...]:
    return (CXX, "-std=c++20", "-O2", "-fPIC", *inputs, "-o", out, *LINK_FLAGS, *SYSTEM_LIBRARIES)


@pytest.fixture(scope="module")
def built(trees: dict[str, Tree], compile_in: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with `probe.so` and the program `main` that loads it."""
    folder = tmp_path_factory.mktemp("probe") / "build"
    folder.mkdir()
    compile_in(folder, trees, *link("probe.so", "-shared", "-fno-gnu-unique", "/src/probe.cpp"), source=SOURCES)
    compile_in(folder, trees, *link("main", "/src/main.cpp"), source=SOURCES)
    return folder


def test_the_sysroot_is_the_same_bytes_each_time(trees: dict[str, Tree], tmp_path: Path) -> None:
    again = lock_sysroot(store=TreeStore(tmp_path), host=trees["host"], executor=Bwrap())
    assert again == LockSet.load()["sysroot"]


@pytest.mark.parametrize("soname", LIBRARIES)
def test_a_stub_exports_what_its_list_says(trees: dict[str, Tree], soname: str) -> None:
    assert set(exported(trees["sysroot"].path / STUBS / soname)) == set(read_symbols(soname))


def test_the_static_libstdcxx_asks_for_nothing_that_an_old_system_lacks(
    trees: dict[str, Tree], compile_in: Callable[..., str], tmp_path: Path
) -> None:
    folder = tmp_path / "build"
    folder.mkdir()
    whole = ("-Wl,--whole-archive", "-l:libstdc++.a", "-Wl,--no-whole-archive")
    compile_in(folder, trees, CC, "-shared", "-nodefaultlibs", "-o", "all.so", *whole, "-Wl,-z,defs",
               *SYSTEM_LIBRARIES, "-lm", "-lgcc_s", "-lc")  # fmt: skip


@pytest.mark.parametrize("name", ["probe.so", "main"])
def test_versions_are_within_the_policy_and_nothing_is_undefined_without_one(built: Path, name: str) -> None:
    facts, policy = read_elf(built / name, name), Policy.load()
    asked = {need.version.partition("_")[::2] for need in facts.version_needs}
    assert {"GLIBC", "GLIBCXX", "CXXABI", "GCC"} >= {family for family, _ in asked} >= {"GLIBC", "GLIBCXX"}
    too_new = [(family, number) for family, number in asked if tuple(map(int, number.split("."))) > policy.caps[family]]
    assert too_new == []
    assert {one.name for one in facts.undefined if one.version is None} <= policy.unversioned


def test_libpthread_and_libdl_are_needed_by_name(built: Path) -> None:
    assert {"libpthread.so.0", "libdl.so.2"} <= set(read_elf(built / "probe.so", "probe.so").needed)


def test_nothing_of_the_static_libstdcxx_is_exported(
    built: Path, trees: dict[str, Tree], compile_in: Callable[..., str]
) -> None:
    archive = compile_in(built, trees, "/usr/bin/gcc-12", "-print-file-name=libstdc++.a").strip()
    listed = compile_in(built, trees, "/usr/bin/nm", "-g", "--defined-only", "--format=just-symbols", archive)
    mine = {one.name for one in read_elf(built / "probe.so", "probe.so").exports}
    assert "probe" in mine
    assert "_ZNSt10filesystem18create_directoriesERKNS_7__cxx114pathE" in listed.split()
    assert "_ZNSt10filesystem18create_directoriesERKNS_7__cxx114pathE" not in mine


def run(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_probe_runs_here(built: Path, tmp_path: Path) -> None:
    assert run(built / "main", built / "probe.so", tmp_path) == "thrown\nleft\n"


def test_the_probe_runs_under_a_real_glibc_2_31(built: Path, old_system: Path, tmp_path: Path) -> None:
    loader = (old_system / "ld-2.31.so", "--library-path", old_system)
    assert run(*loader, built / "main", built / "probe.so", tmp_path) == "thrown\nleft\n"


def test_vector_maths_asks_for_no_libmvec(
    trees: dict[str, Tree], compile_in: Callable[..., str], tmp_path: Path
) -> None:
    source, folder = tmp_path / "src", tmp_path / "build"
    source.mkdir()
    folder.mkdir()
    (source / "fast.c").write_text(
        "#include <math.h>\nvoid f(float *x) { for (int i = 0; i < 1024; ++i) x[i] = expf(x[i]); }\n"
    )
    flags = ("-O3", "-ffast-math", "-mavx2", "-fPIC", "-shared")
    compile_in(folder, trees, CC, *flags, "/src/fast.c", "-o", "fast.so", "-lm", source=source)
    assert [one.name for one in read_elf(folder / "fast.so", "fast.so").undefined if one.name.startswith("_ZGV")] == []
