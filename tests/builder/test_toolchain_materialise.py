"""From a lock to a tree, with a lock, packages and an origin of this test."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from kernelworks_build.action import Tree
from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import SilentProgress
from kernelworks_build.sandbox.none import Unisolated
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact, Lock, LockSet
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.recipes import layout
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.tree import digest_of, remove
from kernelworks_build.toolchain.unpack import unpack


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    """A lock of the `tools` recipe; its two wheels lie in the folder `wheels`."""
    wheels = {
        "cmake": {"cmake/data/bin/cmake": b"cmake", "cmake/data/bin/ctest": b"not wanted"},
        "ninja": {"ninja-1.0.data/scripts/ninja": b"ninja"},
    }
    (tmp_path / "wheels").mkdir()
    paths = {}
    for name, files in wheels.items():
        path = tmp_path / "wheels" / f"{name}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in files.items():
                archive.writestr(member, data)
        data = path.read_bytes()
        paths[Artifact(name, "1.0", "wheel", path.name, len(data), hashlib.sha256(data).hexdigest())] = path
    unpack(paths, layout("tools"), tmp_path / "model")
    return Lock("tools", "tools", digest_of(tmp_path / "model"), tuple(sorted(paths)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TreeStore]:
    yield TreeStore(tmp_path / "cache/trees")
    remove(tmp_path / "cache/trees")


def make(lock: Lock, store: TreeStore, origins: Origins) -> Tree:
    silent = SilentProgress()
    return materialise(
        [lock.name],
        locks=LockSet({lock.name: lock}),
        store=store,
        fetcher=Fetcher(store.root.parent, origins, silent),
        executor=Unisolated(),
        progress=silent,
    )[lock.name]


def folder(tmp_path: Path) -> Origins:
    return Origins.of(links=[str(tmp_path / "wheels")])


def nobody() -> NoReturn:
    pytest.fail("somebody was asked for packages")


def test_a_lock_becomes_the_tree_of_its_digest(lock: Lock, store: TreeStore, tmp_path: Path) -> None:
    tree = make(lock, store, folder(tmp_path))

    assert tree.digest == lock.digest
    assert {str(path.relative_to(tree.path)) for path in tree.path.rglob("*")} == {
        "bin",
        "bin/cmake",
        "bin/ninja",
    }


def test_for_a_tree_that_is_there_nobody_is_asked(lock: Lock, store: TreeStore, tmp_path: Path) -> None:
    tree = make(lock, store, folder(tmp_path))

    assert make(lock, store, Origins(nobody, nobody)) == tree


def test_a_flipped_byte_in_a_cached_package_is_found_when_it_is_used(
    lock: Lock, store: TreeStore, tmp_path: Path
) -> None:
    tree = make(lock, store, folder(tmp_path))
    cached = tmp_path / "cache/artifacts" / lock.artifacts[0].sha256
    good = cached.read_bytes()
    cached.write_bytes(good[:-1] + b"x")
    remove(tree.path)

    assert make(lock, store, folder(tmp_path)).digest == lock.digest
    assert cached.read_bytes() == good

    cached.write_bytes(good[:-1] + b"x")
    remove(tree.path)
    with pytest.raises(ToolchainError, match="is at none of its origins"):
        make(lock, store, Origins.of())
    assert store.get(lock.digest) is None


def test_of_a_package_that_is_cut_only_the_wanted_files_are_fetched(store: TreeStore, tmp_path: Path) -> None:
    path = tmp_path / "wheels" / "flashinfer_python-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("include/cute/tensor.hpp", "tools/util/include/u.h", "examples/e.cu"):
            archive.writestr(f"flashinfer/data/cutlass/{name}", name)
    data = path.read_bytes()
    wheel = Artifact("flashinfer-python", "1.0", "wheel", path.name, len(data), hashlib.sha256(data).hexdigest())
    for name in ("include/cute/tensor.hpp", "tools/util/include/u.h"):
        place = tmp_path / "model" / name
        place.parent.mkdir(parents=True)
        place.write_text(name)
    lock = Lock("cutlass-9.9", "cutlass", digest_of(tmp_path / "model"), (wheel,))

    tree = make(lock, store, folder(tmp_path))

    assert {str(path.relative_to(tree.path)) for path in tree.path.rglob("*") if path.is_file()} == {
        "include/cute/tensor.hpp", "tools/util/include/u.h"
    }  # fmt: skip
    assert not list((tmp_path / "cache/artifacts").glob(wheel.sha256))


def test_a_lock_of_another_recipe_names_the_command_that_pins_it_anew(
    lock: Lock, store: TreeStore, tmp_path: Path
) -> None:
    with pytest.raises(ToolchainError, match="`kernel-build lock --tools` pins it anew"):
        make(replace(lock, digest="0" * 64), store, folder(tmp_path))


def test_an_unknown_recipe_is_refused(lock: Lock, store: TreeStore) -> None:
    with pytest.raises(ToolchainError, match="the unknown recipe `magic`"):
        make(replace(lock, recipe="magic"), store, Origins(nobody, nobody))
