"""Caches that others fill: what lies there is proved and used in place, and nothing is written there."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelworks.settings import cache_root
from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import SILENT
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.tree import FileEntry, remove, write

DATA = b"a package"
ARTIFACT = Artifact(
    "tool", "1", "deb", "tool_1_amd64.deb", len(DATA), hashlib.sha256(DATA).hexdigest(), "pool/tool.deb"
)


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[TreeStore]:
    yield TreeStore(tmp_path / "theirs" / "trees")
    remove(tmp_path / "theirs" / "trees")


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[TreeStore]:
    yield TreeStore(tmp_path / "ours" / "trees", shared=[tmp_path / "nowhere", tmp_path / "theirs" / "trees"])
    remove(tmp_path / "ours" / "trees")


def build(folder: Path) -> None:
    write(folder, [FileEntry("bin/tool", True, b"#!/bin/sh\n")], "test")


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_tree_is_used_where_it_lies(theirs: TreeStore, ours: TreeStore) -> None:
    tree = theirs.add(build)
    before = files(theirs.root)
    assert ours.get(tree.digest) == ours.expected(tree.digest) == tree
    assert not (ours.root / tree.digest).exists()
    assert files(theirs.root) == before


def test_a_tree_that_was_damaged_there_is_built_here_and_stays_there(theirs: TreeStore, ours: TreeStore) -> None:
    tree = theirs.add(build)
    victim = tree.path / "bin" / "tool"
    victim.chmod(0o755)
    victim.write_bytes(b"#!/bin/no\n")
    assert ours.get(tree.digest) is None
    where = ours.expected(tree.digest)
    assert ours.add(build, tree.digest) == where == ours.get(tree.digest)
    assert where.path.parent == ours.root
    assert victim.read_bytes() == b"#!/bin/no\n"


def test_a_tree_of_our_own_comes_first(theirs: TreeStore, ours: TreeStore) -> None:
    digest = theirs.add(build).digest
    own = TreeStore(ours.root).add(build)
    assert ours.get(digest) == ours.expected(digest) == own


def test_a_tree_of_our_own_that_was_damaged_is_built_where_it_was_expected(theirs: TreeStore, ours: TreeStore) -> None:
    digest = theirs.add(build).digest
    own = TreeStore(ours.root).add(build)
    where = ours.expected(digest)
    (own.path / "bin" / "tool").chmod(0o755)
    (own.path / "bin" / "tool").write_bytes(b"#!/bin/no\n")
    assert ours.get(digest) is None
    assert ours.add(build, digest) == where == ours.get(digest)
    assert where.path.is_dir()


def test_a_download_is_used_where_it_lies_once_its_bytes_are_proved(tmp_path: Path) -> None:
    shared = tmp_path / "theirs"
    place = shared / "artifacts" / ARTIFACT.sha256
    place.parent.mkdir(parents=True)
    place.write_bytes(DATA)
    fetcher = Fetcher(tmp_path / "ours", Origins.of(), SILENT, shared=[shared])
    assert fetcher.fetch([ARTIFACT]) == {ARTIFACT: place}
    place.write_bytes(b"A PACKAGE")
    with pytest.raises(ToolchainError, match="1 package is missing"):
        fetcher.fetch([ARTIFACT])
    assert files(shared) == ["artifacts", f"artifacts/{ARTIFACT.sha256}"]


@pytest.mark.sandbox
@pytest.mark.network
def test_a_build_takes_its_toolchain_from_a_cache_that_it_may_only_read(project: Path, tmp_path: Path) -> None:
    cache, own = cache_root(), tmp_path / "own"
    program = Path(sys.executable).with_name("kernel-build")
    done = subprocess.run(
        [
            *("bwrap", "--dev-bind", "/", "/", "--ro-bind", str(cache), str(cache)),
            *(
                "--setenv",
                "KERNELWORKS_CACHE",
                os.pathsep.join([str(own), str(cache)]),
                "--setenv",
                "KERNELWORKS_OFFLINE",
                "1",
            ),
            *(str(program), "build", str(project), "--variant", "*-cpu-*", "--out", str(tmp_path / "dist")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "unpacking" not in done.stderr
    assert "fetching" not in done.stderr
    (first,), (second,) = (list((folder / "wheels").iterdir()) for folder in (project / "dist", tmp_path / "dist"))
    assert first.read_bytes() == second.read_bytes()
