"""Wheels whose bytes depend on their content alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernelworks.model.digest import canonical_json, hash_file
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi
from kernelworks_build.claims import Claims
from kernelworks_build.errors import PackError
from kernelworks_build.wheel import WheelName, unpack_wheel, write_wheel

CLAIMS = Claims(
    name="torch-stable-abi211-cpu-x86_64-linux",
    id="_toy_cpu_0123abcd",
    package="toy",
    framework=FrameworkFacts("torch-stable-abi", (2, 11)),
    backend=BackendFacts("cpu", None),
    python_abi=PythonAbi("abi3", (3, 9)),
    platform=Platform("x86_64", "linux", (2, 28)),
    torch_releases=("2.11.0",),
)
NAME = WheelName.of(CLAIMS, 1, "manylinux_2_28_x86_64")


def make(folder: Path, framework: FrameworkFacts = CLAIMS.framework) -> Path:
    package = folder / "package"
    (package / "layers").mkdir(parents=True)
    (package / "layers" / "__init__.py").write_text("ANSWER = 42\n")
    (package / "__init__.py").write_text("from .layers import ANSWER\n")
    (package / "_toy.abi3.so").write_bytes(b"\x7fELF")
    wheel = folder / NAME.file
    write_wheel(
        wheel,
        NAME,
        metadata={"License": "apache-2.0"},
        framework=framework,
        package=package,
        records={"claims.json": canonical_json(CLAIMS.to_json())},
    )
    return wheel


def test_the_name_holds_version_variant_python_and_platform() -> None:
    assert NAME.file == "toy-1+torch.stable.abi211.cpu-cp39-abi3-manylinux_2_28_x86_64.whl"


def test_equal_content_gives_equal_bytes_whatever_times_modes_and_order(tmp_path: Path) -> None:
    one, two = tmp_path / "a", tmp_path / "somewhere else"
    one.mkdir()
    two.mkdir()
    first = make(one)
    before = os.umask(0o077)
    try:
        second = make(two)
    finally:
        os.umask(before)
    assert hash_file(first) == hash_file(second)


def test_pip_installs_it_and_the_package_imports(tmp_path: Path) -> None:
    wheel = make(tmp_path, FrameworkFacts("none", None))
    target = tmp_path / "site"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--target",
            str(target),
            str(wheel),
        ],
        check=True,
    )
    done = subprocess.run(
        [sys.executable, "-c", "import toy; print(toy.ANSWER)"],
        env={"PYTHONPATH": str(target)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "42\n"


@pytest.mark.parametrize(
    ("framework", "requirement"),
    [
        (FrameworkFacts("torch-stable-abi", (2, 11)), "torch >= 2.11"),
        (FrameworkFacts("torch", (2, 13)), "torch == 2.13.*"),
    ],
)
def test_the_requirement_on_torch_follows_from_the_abi(
    tmp_path: Path, framework: FrameworkFacts, requirement: str
) -> None:
    with zipfile.ZipFile(make(tmp_path, framework)) as archive:
        metadata = archive.read(f"{NAME.dist_info}/METADATA").decode()
    assert f"Requires-Dist: {requirement}\n" in metadata


def test_a_wheel_gives_back_its_claims_and_its_package(tmp_path: Path) -> None:
    claims, package = unpack_wheel(make(tmp_path), tmp_path / "out")
    assert claims == CLAIMS
    assert sorted(path.name for path in package.iterdir()) == ["__init__.py", "_toy.abi3.so", "layers"]


def test_what_is_no_wheel_of_ours_is_refused_in_words(tmp_path: Path) -> None:
    text = tmp_path / "a.whl"
    text.write_text("no zip")
    foreign = tmp_path / "b.whl"
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("x/__init__.py", "")
    for path, words in (
        (text, "cannot be read as a wheel"),
        (foreign, "holds no claims"),
        (tmp_path / "c.whl", "cannot be read"),
    ):
        with pytest.raises(PackError, match=words):
            unpack_wheel(path, tmp_path / "out")


def test_a_member_that_leaves_the_wheel_is_refused(tmp_path: Path) -> None:
    evil = tmp_path / "evil.whl"
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr(f"{NAME.dist_info}/kernelworks/claims.json", canonical_json(CLAIMS.to_json()))
        archive.writestr("toy/../../evil.py", "")
    with pytest.raises(PackError, match="outside of the wheel"):
        unpack_wheel(evil, tmp_path / "out")
