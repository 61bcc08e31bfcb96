"""The symbol lists of torch releases, and a library that is linked to the stubs of one."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from kernelworks.settings import cache_root
from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.audit.elf import read_elf
from kernelworks_build.audit.policy import Policy
from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import SilentProgress
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import LockSet, torch_lock
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.symbol_list import symbols
from kernelworks_build.toolchain.sysroot import CXX, LINK_FLAGS, ROOT, SYSTEM_LIBRARIES
from kernelworks_build.toolchain.torch_sdk import LIBRARIES

LOCKS = LockSet.load()
RELEASES = sorted(lock.artifacts[0].version for lock in LOCKS.locks.values() if lock.recipe == "torch")
STABLE_ABI = {"aoti_torch_call_dispatcher", "torch_call_dispatcher", "torch_library_impl"}

CHECKED = """
#include <c10/util/Exception.h>
extern "C" int checked(int value) { TORCH_CHECK(value > 0, "not positive: ", value); return value; }
"""


def test_every_locked_release_and_every_toolkit_that_torch_brings_has_a_list() -> None:
    assert RELEASES
    assert LOCKS.symbol_lists(LOCKS.locks).keys() == {"rocm-7.2", *map(torch_lock, RELEASES)}


@pytest.mark.parametrize("lock", LOCKS.symbol_lists(LOCKS.locks))
def test_a_list_is_in_its_canonical_form(lock: str) -> None:
    lines = gzip.decompress(LOCKS.symbol_list(lock).read_bytes()).decode().splitlines()
    assert lines == sorted(symbols(LOCKS.symbol_list(lock)))


def test_the_list_of_a_release_is_unpacked_once_for_all_variants(tmp_path: Path) -> None:
    shutil.copyfile(LOCKS.symbol_list(torch_lock(RELEASES[0])), tmp_path / "list")
    first = symbols(tmp_path / "list")
    (tmp_path / "list").unlink()
    assert symbols(tmp_path / "list") is first


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_exports_the_stable_abi(release: str) -> None:
    assert symbols(LOCKS.symbol_list(torch_lock(release))) >= STABLE_ABI


def test_lists_tell_releases_apart() -> None:
    first, last = (
        symbols(LOCKS.symbol_list(torch_lock(RELEASES[0]))),
        symbols(LOCKS.symbol_list(torch_lock(RELEASES[-1]))),
    )
    assert first - last
    assert last - first


def test_a_release_without_a_list_is_an_error_with_the_known_ones_and_the_command_that_makes_one() -> None:
    with pytest.raises(ToolchainError, match=r"no symbol list of `torch-1\.0\.0`") as caught:
        LOCKS.symbol_list("torch-1.0.0")
    assert {f"torch-{release}" for release in RELEASES} < set(caught.value.context["known"])
    assert caught.value.hint == "`kernel-build lock --torch 1.0.0` writes it"


@pytest.mark.sandbox
@pytest.mark.network
def test_a_library_is_linked_to_stubs_by_soname_and_needs_only_what_the_release_exports(
    tmp_path: Path,
) -> None:
    release = RELEASES[-1]
    trees = materialise(
        ["host", "sysroot", f"torch-{release}"],
        locks=LockSet.load(),
        store=TreeStore(cache_root() / "trees"),
        fetcher=Fetcher(cache_root(), Origins(), SilentProgress()),
        executor=Bwrap(),
        progress=SilentProgress(),
    )
    source, build = tmp_path / "src", tmp_path / "build"
    source.mkdir()
    build.mkdir()
    (source / "checked.cpp").write_text(CHECKED)
    compiler = (CXX, "-std=c++20", "-O2", "-fPIC", "-shared", "-isystem", "/opt/torch/include")
    torch = ("-L/opt/torch/lib", "-Wl,--no-as-needed", *(f"-l{name}" for name in LIBRARIES))
    action = Action(
        (*compiler, "/src/checked.cpp", "-o", "checked.so", *LINK_FLAGS, *torch, *SYSTEM_LIBRARIES),
        (("LC_ALL", "C"), ("PATH", "/usr/bin")),
        (
            Mount("/usr", trees["host"]),
            Mount(ROOT, trees["sysroot"]),
            Mount("/opt/torch", trees[f"torch-{release}"]),
            Mount("/src", Tree("0" * 64, source)),
        ),
        ("checked.so",),
        Limits(2 << 30, 300),
    )
    result = Bwrap().run(action, build, tmp_path / "log")
    assert result.exit_code == 0, result.log.read_text()
    facts = read_elf(build / "checked.so", "checked.so")
    assert {f"lib{name}.so" for name in LIBRARIES} <= set(facts.needed)
    unversioned = {one.name for one in facts.undefined if one.version is None} - Policy.load().unversioned
    assert unversioned
    assert unversioned <= symbols(LOCKS.symbol_list(torch_lock(release)))
