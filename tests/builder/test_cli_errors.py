"""What `kernel-build` says and with which code it ends when something is in its way."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.digest import FileEntry, list_tree
from kernelworks.model.index import Index
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi, TorchSymbols, Variant
from kernelworks_build.job import Project
from kernelworks_build.manifest import read_manifest
from kernelworks_build.toolchain.store import TreeStore

Program = Callable[..., Any]


@pytest.fixture(scope="module")
def toy(kernel_build: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "toy"
    assert kernel_build("init", "demo/toy-kernel", "--dir", folder).code == 0
    return Path(folder)


def test_what_the_system_refuses_is_told_with_path_reason_and_hint(
    toy: Path, kernel_build: Program, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    runs = [
        kernel_build("build", toy, "--json", env={"KERNELWORKS_CACHE": str(file)}),
        kernel_build("init", "toy-kernel", "--dir", file / "toy", "--json"),
    ]
    for done in runs:
        assert (done.code, "Traceback" in done.stderr) == (12, False), done.stderr
        error = done.document["error"]
        assert error["code"] == "host"
        assert error["context"]["path"].startswith(str(file))
        assert error["context"]["reason"] in {"not a directory", "file exists"}
        assert error["hint"]
    words = kernel_build("init", "toy-kernel", "--dir", file / "toy")
    assert (words.code, words.stdout) == (12, "")
    assert words.stderr.startswith(f"error: `{file}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--frobnicate", "--json"), "frobnicate"),
        (("plan", "--frobnicate", "--json"), "frobnicate"),
        (("audit", "--json"), "wheels"),
        (("init", "--json"), "NAME"),
        (("build", "--jobs", "0", "--json"), "--jobs"),
        (("bulid", "--json"), "bulid"),
        (("plan", "--format", "json", "--frobnicate"), "frobnicate"),
    ],
)
def test_a_wrong_command_line_is_one_json_document_too(
    kernel_build: Program, arguments: tuple[str, ...], words: str
) -> None:
    done = kernel_build(*arguments)
    assert done.code == 2
    assert done.document["error"]["code"] == "usage"
    assert words in done.document["error"]["message"]
    assert "--help" in done.document["error"]["hint"]
    assert done.stderr == ""


def test_a_wrong_command_line_is_shown_in_words_and_help_is_no_error(kernel_build: Program) -> None:
    done = kernel_build("plan", "--frobnicate")
    assert (done.code, done.stdout) == (2, "")
    assert "frobnicate" in done.stderr
    assert kernel_build("plan", "--help", "--json").code == 0


@pytest.mark.parametrize("arguments", [("--format", "json"), ("--format=json",), ("--json",)])
def test_a_bad_project_is_told_in_the_format_asked_for(
    kernel_build: Program, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = kernel_build("plan", tmp_path, *arguments)
    assert done.code == 20
    assert done.document["error"]["code"] == "manifest"


def test_files_are_not_looked_at_where_only_the_manifest_is_asked_for(
    toy: Path, kernel_build: Program, tmp_path: Path
) -> None:
    (tmp_path / "build.toml").write_bytes((toy / "build.toml").read_bytes())
    assert kernel_build("check", tmp_path).code == 20
    assert kernel_build("check", tmp_path, "--manifest-only").code == 0
    assert kernel_build("check", tmp_path, "--manifest-only", "--json").document == {"diagnostics": []}


TESTS = """
from kernelworks import get_kernel

def test_it():
    assert get_kernel("demo/toy-kernel").WHO == "second"

def test_more():
    pass
"""


@pytest.fixture(scope="module")
def built(kernel_build: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose `dist` holds two variants of pure Python, which fit everywhere."""
    project = Path(tmp_path_factory.mktemp("built") / "toy")
    assert kernel_build("init", "demo/toy-kernel", "--dir", project).code == 0
    for path in (project / "tests").glob("*.py"):  # those of the template need a real kernel
        path.unlink()
    (project / "tests" / "test_it.py").write_text(TESTS)
    variants = []
    for name in ("first", "second"):
        folder = project / "dist" / "build" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"WHO = {name!r}\n")
        variants.append(
            Variant(
                name=name,
                id=f"_toy_kernel_{name}",
                framework=FrameworkFacts("none", None),
                backend=BackendFacts("cpu", None),
                python_abi=PythonAbi("none", None),
                platform=Platform(None, None, None),
                libraries=(),
                torch_symbols=TorchSymbols(()),
                python_depends=(),
                wheel=FileEntry(f"wheels/{name}.whl", 1, "0" * 64),
                package="toy_kernel",
                files=tuple(list_tree(folder)),
                lock="0" * 64,
                hermetic=True,
            )
        )
    source = Project.read(project, read_manifest(project), TreeStore(project.parent / "trees")).source
    index = Index("toy-kernel", 1, "apache-2.0", source, "test", tuple(variants))
    (project / "dist" / "kernel.json").write_bytes(index.to_bytes())
    return project


@pytest.mark.parametrize(("pattern", "code", "pytest_code", "failures"), [("second", 0, 0, 0), ("first", 28, 1, 1)])
def test_the_kernels_tests_run_against_the_variant_asked_for(
    built: Path, kernel_build: Program, pattern: str, code: int, pytest_code: int, failures: int
) -> None:
    done = kernel_build("test", built, "--variant", pattern, "--json")
    assert done.code == code, done.stderr
    document = done.document
    assert (document["variant"], document["pytest"]) == (pattern, pytest_code)
    assert (document["failures"], document["errors"]) == (failures, 0)
    assert document["tests"] == 2
    assert "passed" in done.stderr


def test_pytests_exit_code_is_told_and_not_passed_on(built: Path, kernel_build: Program) -> None:
    done = kernel_build("test", built, "--variant", "first")
    assert done.code == 28
    assert "the kernel's tests failed (pytest's exit code is 1)" in done.stderr
    unknown = kernel_build("test", built, "--variant", "third")
    assert unknown.code == 21
    assert "`first`, `second`" in unknown.stderr


def test_an_interrupt_ends_with_one_line_and_130(tmp_path: Path) -> None:
    code = (
        "import sys, time; from kernelworks_build.cli import app, main; import kernelworks_build.cli.check as check\n"
        "def slow(*_, **__):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "check.check_manifest = slow; sys.argv = ['kernel-build', 'check']; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "interrupted\n")
