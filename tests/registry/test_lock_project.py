"""The kernels that a pyproject.toml asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelworks.errors import LockError
from kernelworks.locking.project import Wanted, asks_for_kernels, read_project
from kernelworks.model.variant import KernelDependency


def write(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_a_kernel_is_asked_for_by_version_or_revision_and_perhaps_from_a_registry(tmp_path: Path) -> None:
    project = write(
        tmp_path,
        """
        [tool.kernelworks.dependencies]
        "org/relu" = 1
        "org/attention" = {version = 2, registry = "https://kernels.example.org"}
        "org/sampling" = {revision = "main"}
        """,
    )
    assert asks_for_kernels(project)
    assert read_project(project) == (
        Wanted(KernelDependency("org/attention", 2), "https://kernels.example.org"),
        Wanted(KernelDependency("org/relu", 1)),
        Wanted(KernelDependency("org/sampling", None, "main")),
    )


def test_the_table_of_the_kernels_package_is_read_and_ours_prevails(tmp_path: Path) -> None:
    project = write(
        tmp_path,
        """
        [tool.kernels.dependencies]
        "org/relu" = 1
        "org/other" = 4
        [tool.kernelworks.dependencies]
        "org/relu" = 2
        """,
    )
    asked = [(one.need.repo_id, one.need.version) for one in read_project(project)]
    assert asked == [("org/other", 4), ("org/relu", 2)]


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    project = write(
        tmp_path,
        """
        [tool.kernelworks.dependencies]
        "relu" = 1
        "org/a" = -1
        "org/b" = {version = 1, revision = "main"}
        "org/c" = {version = 1, url = "x"}
        "org/d" = true
        "org/e" = {revision = "../main"}
        "org/f" = {version = 1, registry = "../kernels"}
        """,
    )
    with pytest.raises(LockError) as caught:
        read_project(project)
    lines = caught.value.message.splitlines()
    assert [line.split("`")[1].removeprefix("tool.kernelworks.dependencies.") for line in lines] == [
        "org/a.version",
        "org/b",
        "org/c",
        "org/d.version",
        "org/e.revision",
        "org/f.registry",
        "relu",
    ]
    assert all(str(project) in line for line in lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.kernelworks]\n", "asks for no kernels"),
        ("tool = \n", "cannot be read: .*line 1"),
        ("tool = 7\n", "`tool` in .* must be an object"),
    ],
)
def test_a_project_without_kernels_is_told_so(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(LockError, match=words):
        read_project(write(tmp_path, text))


def test_no_project_is_told_so(tmp_path: Path) -> None:
    assert not asks_for_kernels(tmp_path)
    with pytest.raises(LockError, match=r"has no `pyproject\.toml`"):
        read_project(tmp_path)
