"""Lock files: strict reading, one canonical form, and the ones that travel with the project."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.lock import SHIPPED, Artifact, Lock, LockSet
from kernelworks_build.toolchain.recipes import layout, pinned

DEB = Artifact("zlib1g", "1:1.2-1", "deb", "zlib1g_1.2-1_amd64.deb", 7, "a" * 64, "pool/z/zlib1g_1.2-1_amd64.deb")
WHEEL = Artifact("ninja", "1.13.0", "wheel", "ninja-1.13.0-py3-none-any.whl", 9, "b" * 64)
LOCK = Lock("cuda-13.0", "cuda", "c" * 64, (WHEEL, DEB))
MADE = {"sysroot", "torch", "torch-rocm"}
"""Recipes that more than unpack what they pin."""

TEXT = f"""\
schema = 1
name = "cuda-13.0"
recipe = "cuda"
digest = "{"c" * 64}"

[[artifact]]
name = "ninja"
version = "1.13.0"
kind = "wheel"
file = "ninja-1.13.0-py3-none-any.whl"
size = 9
sha256 = "{"b" * 64}"

[[artifact]]
name = "zlib1g"
version = "1:1.2-1"
kind = "deb"
file = "zlib1g_1.2-1_amd64.deb"
path = "pool/z/zlib1g_1.2-1_amd64.deb"
size = 7
sha256 = "{"a" * 64}"
"""


def test_a_lock_is_written_in_one_form_and_read_back_equal() -> None:
    assert LOCK.dump() == TEXT
    assert Lock.parse(TEXT, "`x`") == LOCK


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_a_shipped_lock_is_in_canonical_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert Lock.parse(text, path.name).dump() == text


@pytest.mark.parametrize("name", sorted(name for name, lock in LockSet.load().locks.items() if lock.recipe not in MADE))
def test_a_shipped_lock_holds_what_its_recipe_asks_for(name: str) -> None:
    lock, wanted = LockSet.load()[name], pinned(name)

    assert {artifact.name for artifact in lock.artifacts} == {
        *chain(*wanted.debs.values()),
        *wanted.sdists,
        *wanted.wheels,
    }
    assert lock.recipe == wanted.recipe
    assert layout(wanted.recipe).places


def test_the_packages_of_one_cuda_variant_stay_below_400_megabytes() -> None:
    locks = LockSet.load()
    packages = [
        item
        for name in ("host", "python", "tools", "cuda-13.0")
        for item in locks[name].artifacts
        if item.name not in layout(locks[name].recipe).cut
    ]

    assert sum(item.size for item in packages) < 400e6 - 3 * 15e6  # headers of torch and CUDA are cut out by ranges


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("schema = 1", "schema = 2", "`schema` in `x` is 2; this version reads 1"),
        ("schema = 1", "schema = 1\nspeed = 3", "unknown key `speed`"),
        ("size = 9", 'size = "9"', "`artifact[0].size` in `x` must be an integer"),
        ("size = 9", "size = 9\nmirror = 'y'", "unknown key `mirror`"),
        ('kind = "wheel"', 'kind = "rpm"', "not one of deb, sdist, wheel"),
        ('kind = "wheel"', 'kind = "wheel"\npath = "a"', "belongs to a deb"),
        ("b" * 64, "B" * 64, "64 lower-case hex digits"),
        ('path = "pool', 'path = "../pool', "not a relative path"),
        ('file = "ninja', 'file = "../ninja', "does not match"),
        ("digest", "digset", "unknown key `digset`"),
        ("schema = 1", "schema = ", "not valid TOML"),
    ],
)
def test_a_faulty_lock_is_refused_with_the_key(old: str, new: str, says: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        Lock.parse(TEXT.replace(old, new), "`x`")

    assert says in caught.value.message


def test_a_lock_of_the_project_stands_before_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "cuda-13.0.toml").write_text(TEXT)

    locks = LockSet.load(tmp_path)

    assert locks["cuda-13.0"] == LOCK
    assert locks.digest(["cuda-13.0"]) != LockSet.load().digest(["cuda-13.0"])
    assert locks.digest(["host", "tools"]) == LockSet.load().digest(["tools", "host"])


def test_an_unknown_lock_and_a_file_of_another_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"no toolchain lock `cuda-9\.9` \(known: .*cuda-13\.0"):
        LockSet.load()["cuda-9.9"]
    (tmp_path / "tools.toml").write_text(TEXT)
    with pytest.raises(ToolchainError, match=r"holds the lock `cuda-13\.0`"):
        LockSet.load(tmp_path)


def test_a_lock_knows_the_command_that_pins_it_anew() -> None:
    commands = [Lock(name, "r", "", ()).relock for name in ("host", "cuda-13.0", "torch-2.14.1", "tvm-ffi-0.1")]

    assert commands == [
        "kernel-build lock --host",
        "kernel-build lock --cuda 13.0",
        "kernel-build lock --torch 2.14.1",
        "kernel-build lock --tvm-ffi 0.1",
    ]
