from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelworks.cache import markers
from kernelworks.cache.markers import Markers
from kernelworks.errors import VerifyError
from kernelworks.model.digest import FileEntry, list_tree


@pytest.fixture
def folder(tmp_path: Path, sources: dict[str, bytes]) -> Path:
    """A kernel that has lain on the disk for longer than its clock stands still."""
    for path, data in {**sources, "_ops.abi3.so": bytes(100)}.items():
        (tmp_path / "kernel" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kernel" / path).write_bytes(data)
    time.sleep(2 * markers._TICK_NS / 1e9)
    return tmp_path / "kernel"


@pytest.fixture
def files(folder: Path) -> list[FileEntry]:
    return list_tree(folder)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose files were read."""
    read: list[Path] = []
    real = markers.folder_faults

    def faults(folder: Path, *arguments: Any) -> Any:
        read.append(folder)
        return real(folder, *arguments)

    monkeypatch.setattr(markers, "folder_faults", faults)
    return read


def test_files_are_read_once_and_looked_at_afterwards(
    tmp_path: Path, folder: Path, files: list[FileEntry], readings: list[Path]
) -> None:
    for _ in range(3):
        Markers([tmp_path / "cache"]).check(folder, files, hint="")
    assert readings == [folder]


def change_in_place(path: Path) -> None:
    """Change bytes as somebody would who sets the times back."""
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"2", b"3"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swap(path: Path) -> None:
    path.with_suffix(".new").write_bytes(path.read_bytes().replace(b"2", b"3"))
    path.with_suffix(".new").rename(path)


@pytest.mark.parametrize(
    ("tamper", "file", "expected", "got"),
    [
        (lambda folder: change_in_place(folder / "layers.py"), "layers.py", "sha256", "sha256"),
        (lambda folder: swap(folder / "layers.py"), "layers.py", "sha256", "sha256"),
        (lambda folder: os.truncate(folder / "_ops.abi3.so", 64), "_ops.abi3.so", "100 bytes", "64 bytes"),
        (lambda folder: (folder / "layers.py").unlink(), "layers.py", "a file", "nothing"),
        (lambda folder: (folder / "json.py").touch(), "json.py", "nothing", "a file that is not listed"),
        (lambda folder: (folder / "data/x.py").touch(), "data/x.py", "nothing", "a file that is not listed"),
        (lambda folder: (folder / "data/x").symlink_to("/usr"), "data/x", "nothing", "a symbolic link"),
        (lambda folder: (folder / "data/x").mkdir(), "data/x", "nothing", "an empty folder"),
        (lambda folder: (folder / "layers.pyc").touch(), "layers.pyc", "nothing", "bytecode"),
    ],
)
def test_a_marker_tells_nothing_of_a_folder_that_has_changed(
    tmp_path: Path,
    folder: Path,
    files: list[FileEntry],
    tamper: Callable[[Path], None],
    file: str,
    expected: str,
    got: str,
) -> None:
    seen = Markers([tmp_path / "cache"])
    seen.check(folder, files, hint="")
    tamper(folder)
    with pytest.raises(VerifyError) as caught:
        seen.check(folder, files, hint="")
    facts = caught.value.context
    assert facts["file"] == file
    assert facts["expected"].startswith(expected)
    assert facts["got"].startswith(got)
    assert facts["expected"] != facts["got"]


def test_a_marker_is_for_one_folder_and_one_list_of_digests(
    tmp_path: Path, folder: Path, files: list[FileEntry], readings: list[Path]
) -> None:
    seen = Markers([tmp_path / "cache"])
    seen.check(folder, files, hint="")
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    seen.check(copy, files, hint="")
    assert readings == [folder, copy]
    with pytest.raises(VerifyError, match=r"`layers\.py`: expected sha256 000"):
        seen.check(folder, [*files[:-1], replace(files[-1], sha256="0" * 64)], hint="")


def test_what_has_just_been_written_gets_no_marker_yet(
    tmp_path: Path, folder: Path, files: list[FileEntry], readings: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "_TICK_NS", 3600 * 10**9)
    for _ in range(2):
        Markers([tmp_path / "cache"]).check(folder, files, hint="")
    assert readings == [folder, folder]


def test_a_marker_that_others_can_write_is_not_believed(
    tmp_path: Path, folder: Path, files: list[FileEntry], readings: list[Path]
) -> None:
    seen = Markers([tmp_path / "cache"])
    seen.check(folder, files, hint="")
    [marker] = (tmp_path / "cache/verified").iterdir()
    assert marker.stat().st_mode & 0o777 == 0o600
    marker.chmod(0o620)
    seen.check(folder, files, hint="")
    assert readings == [folder, folder]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_the_marker_of_another_user_is_not_believed(
    tmp_path: Path, folder: Path, files: list[FileEntry], readings: list[Path]
) -> None:
    seen = Markers([tmp_path / "cache"])
    seen.check(folder, files, hint="")
    [marker] = (tmp_path / "cache/verified").iterdir()
    os.chown(marker, 12345, 12345)
    seen.check(folder, files, hint="")
    assert readings == [folder, folder]


def test_markers_of_a_lower_layer_are_believed_and_new_ones_go_to_the_first(
    tmp_path: Path, folder: Path, files: list[FileEntry], readings: list[Path]
) -> None:
    lower, first = tmp_path / "lower", tmp_path / "first"
    Markers([lower]).check(folder, files, hint="")
    Markers([first, lower]).check(folder, files, hint="")
    assert readings == [folder]
    assert not first.exists()
    shutil.rmtree(lower)
    Markers([first, lower]).check(folder, files, hint="")
    assert [path.name for path in first.iterdir()] == ["verified"]
    assert not lower.exists()


def test_where_no_marker_can_be_written_the_files_are_read_each_time(
    tmp_path: Path, folder: Path, files: list[FileEntry], readings: list[Path]
) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    for _ in range(2):
        Markers([tmp_path / "cache"]).check(folder, files, hint="")
    assert readings == [folder, folder]
