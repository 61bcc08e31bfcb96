"""Wheels whose bytes depend on their content alone."""

from __future__ import annotations

import io
import os
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
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


def test_a_wheel_for_the_free_threaded_python_is_tagged_for_it_alone() -> None:
    claims = replace(CLAIMS, python_abi=PythonAbi("exact", (3, 13), free_threaded=True))
    assert WheelName.of(claims, 1, "manylinux_2_28_x86_64").tag == "cp313-cp313t-manylinux_2_28_x86_64"


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
        (tmp_path / "c.whl", "does not exist"),
    ):
        with pytest.raises(PackError, match=words):
            unpack_wheel(path, tmp_path / "out")


def changed(folder: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """The wheel of `make` with its members changed."""
    path = make(folder)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "toy/../../evil.py",
        "/toy/evil.py",
        "toy",
        "toy//evil.py",
        "./toy/evil.py",
        "evil.py",
        "other/__init__.py",
        "toy-2.dist-info/METADATA",
        "toy-1+torch.stable.abi211.cpu.data/scripts/evil",
    ],
)
def test_a_member_outside_of_the_package_and_the_one_dist_info_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PackError, match=f"`{re.escape(name)}` is outside of the wheel's folders"):
        unpack_wheel(changed(tmp_path, lambda members: members.update({name: b""})), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda members: members.update({"toy/evil.py": b""}), "`toy/evil.py` is not listed in RECORD"),
        (lambda members: members.pop("toy/__init__.py"), "`toy/__init__.py` is listed in RECORD and not there"),
        (lambda members: members.update({"toy/_toy.abi3.so": b"\x7fELf"}), "`toy/_toy.abi3.so`: expected sha256="),
        (lambda members: members.update({"toy/_toy.abi3.so": b""}), "expected 4 bytes, got 0"),
        (lambda members: members.pop(f"{NAME.dist_info}/RECORD"), "RECORD` is missing"),
        (lambda members: members.update({f"{NAME.dist_info}/RECORD": b"\xff"}), "cannot be read as a wheel"),
        (lambda members: members.update({f"{NAME.dist_info}/RECORD": b"\n"}), "cannot be read as a wheel"),
    ],
)
def test_members_that_are_not_those_of_record_are_refused(
    tmp_path: Path, change: Callable[[dict[str, bytes]], object], words: str
) -> None:
    with pytest.raises(PackError, match=re.escape(words)):
        unpack_wheel(changed(tmp_path, change), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = make(tmp_path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("toy/__init__.py", "evil = True\n")
    with pytest.raises(PackError, match="is there 2 times"):
        unpack_wheel(path, tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "value"),
    [("package", "/etc"), ("package", ".."), ("package", "a/b"), ("name", "../v"), ("id", "x"), ("framework", None)],
)
def test_claims_that_are_none_are_refused_with_the_key(tmp_path: Path, key: str, value: str | None) -> None:
    claims = canonical_json({**CLAIMS.to_json(), key: value})
    member = f"{NAME.dist_info}/kernelworks/claims.json"
    with pytest.raises(PackError, match=f"`{key}`"):
        unpack_wheel(changed(tmp_path, lambda members: members.update({member: claims})), tmp_path / "out")
    with pytest.raises(PackError, match="is not valid JSON"):
        unpack_wheel(changed(tmp_path / "2", lambda members: members.update({member: b"{"})), tmp_path / "out")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_whatever_byte_is_damaged_is_refused_in_words_or_changes_nothing(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(make(tmp_path)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    random_ = random.Random(method)
    refused = 0
    for number in range(300):
        broken = bytearray(data.getvalue())
        broken[random_.randrange(len(broken))] ^= 1 << random_.randrange(8)
        path = tmp_path / NAME.file
        path.write_bytes(broken)
        try:
            _, package = unpack_wheel(path, tmp_path / str(number))
        except PackError:
            refused += 1
        else:
            assert (package / "__init__.py").read_bytes() == members["toy/__init__.py"]
    assert refused > 100


def test_further_packages_and_python_are_required_where_they_are_needed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_wheel(
        tmp_path / NAME.file,
        NAME,
        metadata={},
        framework=CLAIMS.framework,
        package=tmp_path / "empty",
        records={},
        python_abi=CLAIMS.python_abi,
        requires=["einops", "apache-tvm-ffi"],
    )
    with zipfile.ZipFile(tmp_path / NAME.file) as archive:
        lines = archive.read(f"{NAME.dist_info}/METADATA").decode().splitlines()
    assert lines[3:] == [
        "Requires-Dist: apache-tvm-ffi",
        "Requires-Dist: einops",
        "Requires-Dist: torch >= 2.11",
        "Requires-Python: >=3.9",
    ]
