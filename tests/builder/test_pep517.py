"""`pip install ./my-kernel`: the fitting variant is built, installed and imported; what cannot work is said plainly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from kernelworks import host
from kernelworks.errors import UsageError
from kernelworks_build import pep517
from kernelworks_build.cli.project import open_plan

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

USE = """
import torch, silu_and_mul
x = torch.randn(3, 8)
torch.testing.assert_close(silu_and_mul.silu_and_mul(x), torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
print(silu_and_mul.__file__)
"""


def copy_of(project: Path, target: Path) -> Path:
    return Path(shutil.copytree(project, target, ignore=shutil.ignore_patterns("dist")))


def pip(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def test_pip_installs_a_kernel_from_its_folder_and_it_runs(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the variant is chosen by the torch that is installed")
    pytest.importorskip("pip", reason="this interpreter has no pip")
    done = pip("--target", tmp_path / "site", copy_of(project, tmp_path / "a kernel"))
    assert done.returncode == 0, done.stderr
    ran = subprocess.run(
        [sys.executable, "-c", USE],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(tmp_path / "site"))


def test_editable_installs_are_refused_in_words_and_without_a_traceback(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("pip", reason="this interpreter has no pip")
    done = pip("--target", tmp_path / "site", "--editable", copy_of(project, tmp_path / "kernel"))
    assert done.returncode != 0
    assert "a kernel cannot be installed in editable mode" in done.stderr
    assert "pep517.py" not in done.stderr


def test_an_sdist_holds_the_declared_files_and_is_the_same_bytes_each_time(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives = []
    for name in ("first", "second"):
        twin = copy_of(project, tmp_path / name / "kernel")
        (twin / "notes.txt").touch()
        monkeypatch.chdir(twin)
        archives.append(tmp_path / name / pep517.build_sdist(str(tmp_path / name)))
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as archive:
        names = set(archive.getnames())
    assert {"silu_and_mul-1/PKG-INFO", "silu_and_mul-1/build.toml", "silu_and_mul-1/pyproject.toml"} <= names
    assert "silu_and_mul-1/notes.txt" not in names


def test_a_wheel_is_built_from_an_sdist(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy_of(project, tmp_path / "kernel"))
    archive = tmp_path / pep517.build_sdist(str(tmp_path))
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    monkeypatch.chdir(tmp_path / "unpacked" / "silu_and_mul-1")
    name = pep517.build_wheel(str(tmp_path), {"variant": "*-cpu-*"})
    (wheel,) = (project / "dist" / "wheels").iterdir()
    assert name == wheel.name
    assert (tmp_path / name).read_bytes() == wheel.read_bytes()


def test_where_there_is_no_torch_to_choose_by_the_ways_out_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "detect", lambda: host.describe(None))
    _, plan, _ = open_plan(project, None, None)
    with pytest.raises(UsageError) as caught:
        pep517._fitting("silu-and-mul", plan.variants)
    assert "--no-build-isolation" in (caught.value.hint or "")
    assert "torch-stable-abi211-cpu-x86_64-linux" in caught.value.context["variants"]
