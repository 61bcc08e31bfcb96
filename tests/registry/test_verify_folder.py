from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelworks.errors import VerifyError
from kernelworks.model.digest import FileEntry, list_tree
from kernelworks.verify import check_folder


@pytest.fixture
def folder(tmp_path: Path, sources: dict[str, bytes]) -> Path:
    for path, data in {**sources, "_ops.abi3.so": b"\x7fELF" + bytes(100)}.items():
        (tmp_path / "kernel" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kernel" / path).write_bytes(data)
    return tmp_path / "kernel"


@pytest.fixture
def files(folder: Path) -> list[FileEntry]:
    return list_tree(folder)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_folder_with_exactly_the_listed_files_passes(folder: Path, files: list[FileEntry]) -> None:
    check_folder(folder, files, hint="")


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda root: flip(root / "layers.py"), ("layers.py", "sha256 ", "sha256 ")),
        (lambda root: flip(root / "_ops.abi3.so"), ("_ops.abi3.so", "sha256 ", "sha256 ")),
        (lambda root: os.truncate(root / "_ops.abi3.so", 64), ("_ops.abi3.so", "104 bytes", "64 bytes")),
        (lambda root: (root / "layers.py").unlink(), ("layers.py", "a file", "nothing")),
        (lambda root: (root / "evil.py").touch(), ("evil.py", "nothing", "a file that is not listed")),
        (lambda root: (root / "data/x").touch(), ("data/x", "nothing", "a file that is not listed")),
        (lambda root: (root / "layers.pyc").touch(), ("layers.pyc", "nothing", "bytecode")),
        (lambda root: (root / "x").symlink_to("layers.py"), ("x", "nothing", "a symbolic link")),
        (lambda root: (root / "x").symlink_to("/usr"), ("x", "nothing", "a symbolic link")),
        (lambda root: os.mkfifo(root / "x"), ("x", "nothing", "a special file")),
    ],
)  # fmt: skip
def test_a_folder_that_differs_is_refused_with_file_expected_and_got(
    folder: Path, files: list[FileEntry], damage: Callable[[Path], None], fault: tuple[str, str, str]
) -> None:
    damage(folder)
    with pytest.raises(VerifyError) as caught:
        check_folder(folder, files, hint="fetch it again")
    facts = caught.value.context
    file, expected, got = fault
    assert facts["file"] == file
    assert facts["expected"].startswith(expected)
    assert facts["got"].startswith(got)
    assert facts["expected"] != facts["got"]
    assert str(folder) in str(caught.value)
    assert str(caught.value).endswith("fetch it again")


def test_a_file_replaced_by_a_link_to_equal_bytes_is_refused(folder: Path, files: list[FileEntry]) -> None:
    (folder / "layers.py").rename(folder.parent / "layers.py")
    (folder / "layers.py").symlink_to(folder.parent / "layers.py")
    with pytest.raises(VerifyError, match=r"`layers\.py`: expected a file, got a symbolic link"):
        check_folder(folder, files, hint="")


def test_a_folder_that_is_a_link_is_refused(folder: Path, files: list[FileEntry], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(VerifyError, match="a symbolic link"):
        check_folder(tmp_path / "link", files, hint="")


def test_bytecode_is_refused_even_if_it_is_listed(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/layers.cpython-311.pyc").write_bytes(b"evil")
    with pytest.raises(VerifyError, match="bytecode"):
        check_folder(folder, list_tree(folder), hint="")


def test_all_faults_are_told_together(folder: Path, files: list[FileEntry]) -> None:
    for name in "abcdefg":
        (folder / name).touch()
    flip(folder / "layers.py")
    with pytest.raises(VerifyError, match="and 3 more") as caught:
        check_folder(folder, files, hint="")
    assert [fault["file"] for fault in caught.value.context["faults"]] == [*"abcdefg", "layers.py"]


def test_a_missing_folder_is_refused(tmp_path: Path, files: list[FileEntry]) -> None:
    with pytest.raises(VerifyError, match="expected a folder, got nothing"):
        check_folder(tmp_path / "nothing", files, hint="")
