"""A lock file travels in a wheel, and code in there finds it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import distributions, entry_points
from pathlib import Path
from typing import Any

import pytest

from kernelworks import LockError
from kernelworks.cli import main
from kernelworks.locking.shipping import shipped_lock, write_metadata
from kernelworks.model.variant import Variant

Pack = Callable[..., tuple[Variant, bytes]]

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "consumer"
version = "1"

[tool.setuptools]
packages = ["consumer_lib"]

[tool.kernelworks.dependencies]
"org/relu" = 1
"""
CODE = "from kernelworks import get_locked_kernel\nkernel = get_locked_kernel('org/relu')\n"


@pytest.fixture
def project(tmp_path: Path, registry: Any, pack: Pack) -> Path:
    """A library that loads `org/relu` as it is locked, and the lock, whose version has moved on since."""
    folder = tmp_path / "project"
    (folder / "consumer_lib").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "consumer_lib" / "__init__.py").write_text(CODE)
    registry.publish("org/relu", 1, pack({"__init__.py": b"value = 1\n"}))
    assert main(["lock", str(folder)]) == 0
    registry.publish("org/relu", 1, pack({"__init__.py": b"value = 2\n"}))
    return folder


def test_setuptools_puts_the_lock_into_the_metadata_of_the_wheel(project: Path, tmp_path: Path, processes: Any) -> None:
    found = distributions(name="setuptools")  # not imported: it puts itself in the place of distutils
    if not any(int(one.version.partition(".")[0]) > 70 for one in found):
        pytest.skip("setuptools builds the wheel, from 71 on")
    if not entry_points(group="egg_info.writers", name="kernelworks.lock"):
        pytest.skip("this package was installed before it had the entry point: install it again")
    build = "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"
    subprocess.run([sys.executable, "-W", "ignore", "-c", build], cwd=project, check=True, capture_output=True)
    (wheel,) = (project / "dist").glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("consumer-1.dist-info/kernelworks.lock") == (project / "kernelworks.lock").read_bytes()
        archive.extractall(site)
    program = f"import sys; sys.path.insert(0, {str(site)!r})\nimport consumer_lib; print(consumer_lib.kernel.value)"
    assert processes.start(program).communicate() == ("1\n", "")


def test_a_lock_beside_the_code_is_found_whatever_has_built_the_wheel(project: Path, processes: Any) -> None:
    (project / "kernelworks.lock").rename(project / "consumer_lib" / "kernelworks.lock")
    program = f"import sys; sys.path.insert(0, {str(project)!r})\nimport consumer_lib; print(consumer_lib.kernel.value)"
    assert processes.start(program).communicate() == ("1\n", "")


def test_the_lock_of_the_kernels_package_in_the_metadata_is_found(project: Path, processes: Any) -> None:
    (entry,) = json.loads((project / "kernelworks.lock").read_text())["kernels"]
    metadata = project / "consumer-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: consumer\nVersion: 1\n")
    (metadata / "RECORD").write_text("consumer_lib/__init__.py,,\nconsumer-1.dist-info/kernels.lock,,\n")
    pin = {"dependency": {"repo-id": "org/relu", "version": 1}, "lock": {"commit": entry["commit"]}}
    (metadata / "kernels.lock").write_text(json.dumps([pin]))
    program = f"import sys; sys.path.insert(0, {str(project)!r})\nimport consumer_lib; print(consumer_lib.kernel.value)"
    assert processes.start(program).communicate() == ("1\n", "")
    (metadata / "kernels.lock").write_text("[7]")
    out, err = processes.start(program).communicate()
    assert out == ""
    assert "`[0]` in lock file `kernels.lock of consumer` must be an object" in err


def test_a_package_without_a_lock_is_told_so() -> None:
    with pytest.raises(LockError, match="no lock file is installed with `hypothesis`"):
        shipped_lock("hypothesis")


@pytest.mark.parametrize(
    ("pyproject", "warning"),
    [("[project]\n", None), ("tool = 7\n", "must be an object"), (PYPROJECT, "does not exist: run `kernelworks lock`")],
)
def test_a_build_never_fails_for_want_of_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pyproject: str, warning: str | None
) -> None:
    command = Command()
    (tmp_path / "pyproject.toml").write_text(pyproject)
    monkeypatch.chdir(tmp_path)
    write_metadata(command, "kernelworks.lock", "x")
    assert all((warning or "nothing") in text for text in command.warnings)
    assert len(command.warnings) == (warning is not None)
    assert command.written in ([], [None])


class Command:
    """What setuptools gives to a writer."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.written: list[str | None] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def write_or_delete_file(self, _what: str, _filename: str, data: str | None) -> None:
        self.written.append(data)
