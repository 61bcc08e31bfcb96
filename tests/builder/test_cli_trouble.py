"""What stands in the way of an author is said plainly; blanks and letters of any language do not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks.settings import cache_root

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

Program = Callable[..., Any]
PROGRAM = str(Path(sys.executable).with_name("kernel-build"))


def copy_of(project: Path, target: Path) -> Path:
    return Path(shutil.copytree(project, target, ignore=shutil.ignore_patterns("dist")))


def run_with_mounts(mounts: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program, where the file system is changed by bubblewrap's options `mounts`."""
    command = ["bwrap", "--dev-bind", "/", "/", *mounts, PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def build_with_mounts(project: Path, mounts: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A build of what is in the cache already, the same way."""
    return run_with_mounts(mounts, "build", "--variant", "*-cpu-*", str(project), *arguments)


@pytest.mark.parametrize("name", ["a kernel with blanks", "ядро-κέρνελ-核", "it's $HOME & `more`"])
def test_a_kernel_is_built_whatever_its_folder_is_called(
    project: Path, kernel_build: Program, tmp_path: Path, name: str
) -> None:
    twin = copy_of(project, tmp_path / name)
    done = kernel_build("build", twin, "--variant", "*-cpu-*", "--json")
    assert done.code == 0, done.stderr
    assert done.document["out"] == str(twin / "dist")


@pytest.mark.slow
def test_a_cache_may_lie_in_such_a_folder_too(project: Path, kernel_build: Program, tmp_path: Path) -> None:
    cache = tmp_path / "ein Zwischenlager, größer"
    cache.mkdir()
    for name in ("artifacts", "trees"):
        (cache / name).symlink_to(cache_root() / name)
    done = kernel_build(
        "build", project, "--variant", "*-cpu-*", "--out", tmp_path / "dist", env={"KERNELWORKS_CACHE": str(cache)}
    )
    assert done.code == 0, done.stderr
    (first,), (second,) = (list((folder / "wheels").iterdir()) for folder in (project / "dist", tmp_path / "dist"))
    assert first.read_bytes() == second.read_bytes()


def test_a_tree_that_is_read_only_is_named_with_a_way_out(project: Path, tmp_path: Path) -> None:
    twin = copy_of(project, tmp_path / "kernel")
    done = build_with_mounts(twin, ["--ro-bind", str(twin), str(twin)])
    assert done.returncode == 12, done.stderr
    assert f"`{twin / 'dist'}`: read-only file system" in done.stderr
    assert "all variants" not in done.stderr
    assert "name a folder that can be written" in done.stderr
    elsewhere = build_with_mounts(twin, ["--ro-bind", str(twin), str(twin)], "--out", str(tmp_path / "dist"))
    assert elsewhere.returncode == 0, elsewhere.stderr


@pytest.mark.parametrize("command", [("build",), ("export", "--no-artifacts")], ids=" ".join)
def test_a_full_disk_is_named_with_a_way_out(project: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    out = tmp_path / "full"
    out.mkdir()
    small = ["--size", "65536", "--tmpfs", str(out)]
    done = run_with_mounts(small, *command, str(project), "--variant", "*-cpu-*", "--out", str(out))
    if "Unknown option" in done.stderr:
        pytest.skip("this bubblewrap cannot make small file systems")
    assert done.returncode == 12, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert said == f"error: `{out}`: no space left on device"
    assert "all variants" not in done.stderr
    assert f"free space where the output, the cache (`{cache_root()}`) and temporary files" in done.stderr


def test_a_new_kernel_on_a_full_disk_is_named_and_each_way_out_once(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    small = ["--size", "4096", "--tmpfs", str(full)]
    done = run_with_mounts(
        [*small, "--setenv", "KERNELWORKS_CACHE", str(full)], "init", "toy", "--dir", str(full / "toy")
    )
    if "Unknown option" in done.stderr:
        pytest.skip("this bubblewrap cannot make small file systems")
    assert done.returncode == 12, done.stderr
    assert done.stderr.startswith(f"error: `{full}/")
    assert done.stderr.count("KERNELWORKS_CACHE") == 1


def test_a_cache_that_cannot_be_written_is_named_with_the_variable_that_names_another(project: Path) -> None:
    done = build_with_mounts(project, ["--ro-bind", str(cache_root()), str(cache_root())])
    assert done.returncode == 12, done.stderr
    assert f"`{cache_root()}" in done.stderr
    assert "KERNELWORKS_CACHE names another cache" in done.stderr


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: None, "is not a folder"),
        (lambda folder: folder.mkdir(), "build.toml"),
        (lambda folder: folder.touch(), "is not a folder"),
    ],
    ids=["nothing", "an empty folder", "a file"],
)
def test_a_wrong_folder_is_told_from_a_faulty_kernel(
    kernel_build: Program, tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    make(tmp_path / "wrong")
    done = kernel_build("build", tmp_path / "wrong")
    assert done.code in {2, 12, 20}
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_submodule_that_was_not_fetched_is_named_with_the_command(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    twin = copy_of(project, tmp_path / "kernel")
    shutil.rmtree(twin / "common")
    (twin / "common").mkdir()
    (twin / ".gitmodules").write_text('[submodule "common"]\n\tpath = common\n\turl = https://example.org/common\n')
    done = kernel_build("build", twin)
    assert done.code == 20
    assert "`common` is a git submodule: run `git submodule update --init --recursive`" in done.stderr


def test_a_linked_folder_in_the_path_is_no_trouble(project: Path, kernel_build: Program, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(copy_of(project, tmp_path / "kernel"))
    done = kernel_build("build", tmp_path / "link", "--variant", "*-cpu-*")
    assert done.code == 0, done.stderr
    assert os.path.lexists(tmp_path / "kernel" / "dist" / "kernel.json")
