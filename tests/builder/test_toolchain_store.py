"""Trees and their store: digests, seals, hostile entries, builders that race or die."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.tree import Entry, FileEntry, LinkEntry, digest_of, remove, seal, write

ENTRIES: list[Entry] = [
    FileEntry("bin/tool", True, b"#!/bin/sh\n"),
    FileEntry("share/notes", False, b"text"),
    LinkEntry("bin/alias", "tool"),
]


def build(folder: Path) -> None:
    write(folder, ENTRIES, "test")


def never(folder: Path) -> None:
    pytest.fail(f"`{folder}` was built although its tree exists")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TreeStore]:
    yield TreeStore(tmp_path / "trees")
    remove(tmp_path / "trees")


def test_the_digest_is_that_of_the_canonical_list_of_files_and_links(tmp_path: Path) -> None:
    write(tmp_path, ENTRIES, "test")
    tool, notes = hashlib.sha256(b"#!/bin/sh\n").hexdigest(), hashlib.sha256(b"text").hexdigest()

    listing = (
        '[{"kind":"link","path":"bin/alias","target":"tool"},'
        f'{{"executable":true,"kind":"file","path":"bin/tool","sha256":"{tool}","size":10}},'
        f'{{"executable":false,"kind":"file","path":"share/notes","sha256":"{notes}","size":4}}]\n'
    )

    assert digest_of(tmp_path) == hashlib.sha256(listing.encode()).hexdigest()


@given(st.permutations(ENTRIES))
def test_the_digest_does_not_depend_on_the_order_of_writing(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]
) -> None:
    roots = [tmp_path_factory.mktemp("tree") for _ in range(2)]
    write(roots[0], ENTRIES, "test")
    write(roots[1], entries, "test")

    assert digest_of(roots[0]) == digest_of(roots[1])


@pytest.mark.parametrize(
    "other",
    [
        [*ENTRIES[:2], LinkEntry("bin/alias", "../share/notes")],
        [FileEntry("bin/tool", False, b"#!/bin/sh\n"), *ENTRIES[1:]],
        [FileEntry("bin/tool", True, b"#!/bin/sx\n"), *ENTRIES[1:]],
        [FileEntry("bin/tools", True, b"#!/bin/sh\n"), FileEntry("share/notes", False, b"text"), ENTRIES[2]],
    ],
    ids=["link target", "executable bit", "byte", "path"],
)
def test_every_fact_of_an_entry_changes_the_digest(tmp_path: Path, other: list[Entry]) -> None:
    write(tmp_path / "a", ENTRIES, "test")
    write(tmp_path / "b", other, "test")

    assert digest_of(tmp_path / "a") != digest_of(tmp_path / "b")


def test_a_sealed_tree_is_read_only_without_empty_folders_and_of_no_time(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    build(root)
    (root / "empty/inner").mkdir(parents=True)
    before = digest_of(root)

    assert seal(root) == before == digest_of(root)
    assert not (root / "empty").exists()
    assert {oct(path.lstat().st_mode & 0o7777) for path in root.rglob("*") if not path.is_symlink()} == {
        "0o555",
        "0o444",
    }
    assert len({path.lstat().st_mtime for path in [root, *root.rglob("*")]}) == 1
    remove(root)
    assert not root.exists()


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/out", ""])
def test_an_entry_that_leaves_the_tree_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolchainError, match="outside of the tree"):
        write(tmp_path / "tree", [FileEntry(path, False, b"")], "evil.whl")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("target", ["..", "/etc/passwd", "../../x", "here/../../../x", "up/../.."])
def test_a_link_that_leaves_the_tree_is_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(ToolchainError, match="outside of the tree"):
        write(tmp_path / "tree", [LinkEntry("link", target)], "evil.deb")


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "tree/real").mkdir(parents=True)

    with pytest.raises(ToolchainError, match="`folder` is no folder"):
        write(tmp_path / "tree", [LinkEntry("folder", "real"), FileEntry("folder/x", False, b"")], "evil.deb")


def test_two_packages_may_share_a_file_but_not_a_path_with_two_contents(tmp_path: Path) -> None:
    write(tmp_path, ENTRIES, "one.whl")
    write(tmp_path, ENTRIES, "two.whl")

    with pytest.raises(ToolchainError, match=r"`share/notes` of `three\.whl` has another content"):
        write(tmp_path, [FileEntry("share/notes", False, b"else")], "three.whl")


def test_a_tree_is_made_once_and_found_by_its_digest(store: TreeStore) -> None:
    made = store.add(build)

    assert store.get(made.digest) == made
    assert store.add(never, made.digest).path == made.path
    assert store.get("0" * 64) is None


def test_a_tree_of_another_digest_than_expected_is_refused_and_leaves_nothing(store: TreeStore) -> None:
    with pytest.raises(ToolchainError, match="the lock says") as caught:
        store.add(build, "0" * 64)

    assert caught.value.context["expected"] == "0" * 64
    assert [path.name for path in store.root.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("change", ["flip", "remove", "add"])
def test_a_tree_that_has_changed_is_not_given_and_is_made_anew(store: TreeStore, change: str) -> None:
    tree = store.add(build)
    assert store.get(tree.digest) == tree
    victim = next(path for path in tree.path.rglob("*") if path.is_file() and not path.is_symlink())
    clock = store.root / ".clock"
    clock.touch()
    while clock.stat().st_ctime_ns <= victim.stat().st_ctime_ns:  # the clock of a file system ticks slowly
        os.utime(clock)
    victim.parent.chmod(0o755)
    if change == "flip":
        times = victim.stat()
        victim.chmod(0o644)
        victim.write_bytes(bytes([victim.read_bytes()[0] ^ 1]) + victim.read_bytes()[1:])
        os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))  # whoever did it even set the time back
    elif change == "remove":
        victim.unlink()
    else:
        (victim.parent / "more").touch()
    assert store.get(tree.digest) is None
    assert store.add(build) == tree
    assert store.get(tree.digest) == tree


def test_a_tree_that_was_only_touched_is_read_again_and_kept(store: TreeStore) -> None:
    tree = store.add(build)
    os.utime(next(path for path in tree.path.rglob("*") if path.is_file()))
    assert store.get(tree.digest) == tree


def test_a_tree_that_was_read_is_not_read_again_by_whatever_path_it_is_reached(
    store: TreeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = store.add(build)
    (tmp_path / "link").symlink_to(store.root)
    monkeypatch.delattr("kernelworks_build.toolchain.store.digest_of")
    assert TreeStore(tmp_path / "link").get(tree.digest) == tree


BUILDER = """
import sys, time
from pathlib import Path
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.tree import FileEntry, write

def build(folder):
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    write(folder, [FileEntry("a", False, b"1")], "test")
    print("half", flush=True)
    time.sleep(float(sys.argv[3]))
    write(folder, [FileEntry("b", False, b"2")], "test")

TreeStore(Path(sys.argv[1])).add(build, sys.argv[4])
"""


def test_eight_processes_that_want_one_tree_build_it_once(store: TreeStore, tmp_path: Path) -> None:
    write(tmp_path / "model", [FileEntry("a", False, b"1"), FileEntry("b", False, b"2")], "test")
    digest, log = digest_of(tmp_path / "model"), tmp_path / "log"
    argv = [sys.executable, "-c", BUILDER, str(store.root), str(log), "0.1", digest]

    processes = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for _ in range(8)]

    assert [process.wait() for process in processes] == [0] * 8
    assert log.read_text() == "built\n"
    assert [path.name for path in store.root.iterdir() if path.is_dir()] == [digest]


def test_what_a_killed_builder_leaves_is_no_tree_and_the_next_one_clears_it(store: TreeStore, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", BUILDER, str(store.root), str(tmp_path / "log"), "60", "0" * 64]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        living = [path for path in store.root.iterdir() if path.is_dir()]
        other = store.add(build)  # sweeps, and must spare what is being built
        assert all(path.is_dir() for path in living)
        process.send_signal(signal.SIGKILL)

    assert store.get("0" * 64) is None
    store.add(build)
    assert [path for path in store.root.iterdir() if path.is_dir()] == [other.path]


def test_removing_a_tree_that_is_gone_is_no_error(tmp_path: Path) -> None:
    remove(tmp_path / "never")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_nobody_writes_into_a_sealed_tree(store: TreeStore) -> None:
    tree = store.add(build)

    with pytest.raises(PermissionError):
        shutil.copy(__file__, tree.path / "bin")
