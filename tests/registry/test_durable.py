from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelworks.durable import replace_file, sync, sync_tree


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was flushed, in that order, under the name that it had then."""
    paths: list[Path] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_a_tree_is_flushed_with_all_files_and_folders_and_without_following_links(
    tmp_path: Path, flushed: list[Path]
) -> None:
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/file").touch()
    (tmp_path / "outside").touch()
    (tree / "link").symlink_to(tmp_path / "outside")
    (tree / "nowhere").symlink_to("gone")
    sync_tree(tree)
    assert sorted(flushed) == [tree, tree / "a", tree / "a/b", tree / "a/b/file"]


def test_a_file_and_a_folder_can_be_flushed(tmp_path: Path, flushed: list[Path]) -> None:
    (tmp_path / "file").touch()
    sync(tmp_path / "file")
    sync(tmp_path)
    assert flushed == [tmp_path / "file", tmp_path]


def test_a_file_is_replaced_whole_and_flushed_before_and_after(tmp_path: Path, flushed: list[Path]) -> None:
    path = tmp_path / "ref"
    path.write_bytes(b"old, and longer")
    with path.open("rb") as reader:
        replace_file(path, b"new")
        assert reader.read() == b"old, and longer"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
    written, folder = flushed
    assert (written.parent, written.name.startswith(".ref."), folder) == (tmp_path, True, tmp_path)


def test_what_need_not_survive_a_power_cut_does_not_wait_for_the_disk(tmp_path: Path, flushed: list[Path]) -> None:
    replace_file(tmp_path / "record", b"new", durable=False)
    assert ((tmp_path / "record").read_bytes(), flushed) == (b"new", [])


def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ref"
    path.write_bytes(b"old")

    def full(_descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
