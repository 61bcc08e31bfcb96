"""The symbol lists of the sysroot, and how they are cut out of newer libraries."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks_build.audit.policy import Policy
from kernelworks_build.toolchain.sysroot.extract import capped
from kernelworks_build.toolchain.sysroot.symbols import (
    LIBRARIES,
    Symbol,
    assembler,
    dump_symbols,
    read_symbols,
    version_script,
)
from kernelworks_build.toolchain.sysroot.tree import sources

CAPS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}


def func(versioned: str) -> Symbol:
    return Symbol.parse(f"{versioned} func global 1")


def cut(*versioned: str) -> set[str]:
    return {one.versioned for one in capped(map(func, versioned), CAPS)}


@pytest.mark.parametrize("soname", LIBRARIES)
def test_every_list_is_in_its_canonical_form(soname: str) -> None:
    package = "kernelworks_build.toolchain.sysroot"
    text = files(package).joinpath(f"symbols/{soname}.txt").read_text(encoding="utf-8")
    assert dump_symbols(read_symbols(soname)) == text


@pytest.mark.parametrize("soname", LIBRARIES)
def test_no_list_goes_beyond_the_policy_of_the_audit(soname: str) -> None:
    symbols = read_symbols(soname)
    assert set(capped(symbols, Policy.load().caps)) == set(symbols)


@pytest.mark.parametrize("soname", LIBRARIES)
def test_a_name_has_at_most_one_default_version(soname: str) -> None:
    defaults = Counter(one.name for one in read_symbols(soname) if one.default)
    assert defaults
    assert set(defaults.values()) == {1}


def test_names_live_where_glibc_2_28_had_them() -> None:
    homes = {soname: {one.name for one in read_symbols(soname)} for soname in LIBRARIES}
    assert "pthread_create" in homes["libpthread.so.0"] - homes["libc.so.6"]
    assert "dlopen" in homes["libdl.so.2"] - homes["libc.so.6"]
    assert "shm_open" in homes["librt.so.1"] - homes["libc.so.6"]
    assert not {"stat", "__libc_single_threaded", "arc4random"} & homes["libc.so.6"]


def test_the_newest_allowed_version_stands_in_for_a_default_that_is_too_new() -> None:
    assert cut("pow@GLIBC_2.2.5", "pow@@GLIBC_2.29") == {"pow@@GLIBC_2.2.5"}


def test_versions_are_compared_as_numbers() -> None:
    assert cut("f@GLIBC_2.9", "f@@GLIBC_2.14", "g@@GLIBC_2.100") == {"f@GLIBC_2.9", "f@@GLIBC_2.14"}


def test_what_only_old_binaries_use_stays_out_of_reach_of_new_ones() -> None:
    assert cut("cfree@GLIBC_2.2.5") == {"cfree@GLIBC_2.2.5"}


def test_private_symbols_are_dropped_and_unnumbered_versions_kept() -> None:
    assert cut("errno@@GLIBC_PRIVATE", "_ZTIn@@CXXABI_FLOAT128") == {"_ZTIn@@CXXABI_FLOAT128"}


@given(
    st.builds(
        Symbol,
        name=st.from_regex(r"[A-Za-z_.$][A-Za-z0-9_.$]*", fullmatch=True),
        version=st.from_regex(r"[A-Z]+_[0-9.]+", fullmatch=True),
        default=st.booleans(),
        kind=st.sampled_from(["func", "object", "tls"]),
        binding=st.sampled_from(["global", "weak"]),
        size=st.integers(0, 1 << 20),
    )
)
def test_a_symbol_is_read_as_it_was_written(symbol: Symbol) -> None:
    assert Symbol.parse(dump_symbols([symbol])) == symbol


def test_a_stub_names_each_version_once_and_each_symbol_under_its_version() -> None:
    symbols = [func("memcpy@GLIBC_2.2.5"), func("memcpy@@GLIBC_2.14"), func("exit@@GLIBC_2.2.5")]
    assert version_script(symbols).splitlines() == ["GLIBC_2.14 { };", "GLIBC_2.2.5 { };"]
    assert ".symver s1, memcpy@@GLIBC_2.14, remove" in assembler(symbols).splitlines()


def test_equal_data_gives_equal_sources() -> None:
    assert sources() == sources()
    assert {"build.sh", "compat.c", "libc.so", "libc.so.6.s", "libc.so.6.map"} <= set(sources())
