"""What `kernel-build` says and with which code it ends when something is in its way."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelworks._version import __version__
from kernelworks.errors import ResolveError
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
        (("audit", "--json"), "WHEEL"),
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "--frobnicate"), "error: no such option: --frobnicate"),
        (("bulid",), "error: no such command `bulid`. Did you mean `build`"),
        (("audit",), "error: missing argument `WHEEL`\nhint: see `kernel-build audit --help`\n"),
        (("cache",), "error: missing command\nhint: see `kernel-build cache --help`\n"),
        (("cache", "gc", "--older-than"), "error: option `--older-than` requires an argument\nhint: see `kernel-build"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_looks_like_every_other_error(
    kernel_build: Program, arguments: tuple[str, ...], said: str
) -> None:
    done = kernel_build(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith(said)


def test_help_is_no_error(kernel_build: Program) -> None:
    assert kernel_build("plan", "--help", "--json").code == 0
    assert kernel_build().stdout == kernel_build("--help").stdout


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

def test_more_by_the_name_of_the_package():
    import toy_kernel
    assert toy_kernel.WHO == get_kernel("demo/toy-kernel").WHO
"""


@pytest.fixture(scope="module")
def built(kernel_build: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose `dist` holds variants of pure Python, which fit everywhere; one cannot be imported."""
    project = Path(tmp_path_factory.mktemp("built") / "toy")
    assert kernel_build("init", "demo/toy-kernel", "--dir", project).code == 0
    for path in (project / "tests").glob("*.py"):  # those of the template need a real kernel
        path.unlink()
    (project / "tests" / "test_it.py").write_text(TESTS)
    variants = []
    for name in ("broken", "first", "second"):
        folder = project / "dist" / "build" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("import nothing_such\n" if name == "broken" else f"WHO = {name!r}\n")
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


def test_what_follows_two_dashes_is_pytests(built: Path, kernel_build: Program) -> None:
    done = kernel_build("test", built, "--variant", "first", "--json", "--", "-k", "more")
    assert (done.code, done.document["tests"], done.document["failures"]) == (0, 1, 0), done.stderr
    none = kernel_build("test", built, "--variant", "first", "--", "-k", "nothing_such")
    assert (none.code, "perhaps `-k nothing_such` leaves none" in none.stderr) == (2, True)


def test_a_kernel_that_does_not_load_is_one_error_and_no_test_runs(built: Path, kernel_build: Program) -> None:
    done = kernel_build("test", built, "--variant", "broken")
    assert done.code == 15, done.stderr
    assert "ModuleNotFoundError: No module named 'nothing_such'" in done.stderr
    assert "test session starts" not in done.stdout


def test_where_no_variant_fits_it_is_one_error_with_reason_and_way_out_and_no_test_runs(
    built: Path, kernel_build: Program, tmp_path: Path
) -> None:
    twin = Path(shutil.copytree(built, tmp_path / "twin", symlinks=True))
    index = Index.from_bytes((twin / "dist" / "kernel.json").read_bytes(), "index")
    foreign = [replace(one, backend=BackendFacts("rocm", (7, 2))) for one in index.variants]
    (twin / "dist" / "kernel.json").write_bytes(replace(index, variants=tuple(foreign)).to_bytes())
    done = kernel_build("test", twin, "--variant", "first")
    assert done.code == ResolveError.exit_code, done.stderr
    assert "`first`: is for backend `rocm`" in done.stderr
    assert "needs a torch that is built for ROCm\nhint: build a variant that fits, or run this where one" in done.stderr
    assert "test session starts" not in done.stdout


def test_without_tests_nothing_is_run(built: Path, kernel_build: Program) -> None:
    (built / "tests").rename(built / "away")
    done = kernel_build("test", built)
    (built / "away").rename(built / "tests")
    assert (done.code, "there is no folder" in done.stderr) == (2, True)


def test_each_diagnostic_is_said_once_and_the_file_itself_names_the_project(
    toy: Path, kernel_build: Program, tmp_path: Path
) -> None:
    manifest = tmp_path / "build.toml"
    text = (toy / "build.toml").read_text()
    manifest.write_text(text.replace("version = 1", 'version = "1.0"').replace('["cpu", "cuda"]', '["cpu", "cpu"]'))
    done = kernel_build("check", manifest, "--manifest-only")
    assert (done.code, done.stdout) == (20, "")
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("1 error, ")
    assert all(line.startswith(f"{manifest}:") for line in lines[:-1])
    assert len(set(lines)) == len(lines)
    assert all(line.count("warning:") <= 1 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code"), [(("publish", "nowhere", "--registry", "r"), 2), (("audit", "nope.whl"), 26)]
)
def test_what_is_not_there_is_said_not_to_exist(
    kernel_build: Program, tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    done = kernel_build(*arguments, cwd=tmp_path)
    assert (done.code, f"`{arguments[1]}` does not exist" in done.stderr) == (code, True)


@pytest.mark.parametrize("command", ["build", "export", "lock"])
@pytest.mark.parametrize(
    ("out", "code", "words"),
    [("file", 2, "file` is a file, not a folder"), ("file/dist", 12, "file/dist`: not a directory")],
)
def test_an_out_that_cannot_be_written_is_told_before_anything_is_done(
    toy: Path, kernel_build: Program, tmp_path: Path, command: str, out: str, code: int, words: str
) -> None:
    (tmp_path / "file").touch()
    more = ["--tools"] if command == "lock" else []
    cache = tmp_path / "cache"
    done = kernel_build(command, toy, "--out", tmp_path / out, *more, env={"KERNELWORKS_CACHE": str(cache)})
    assert (done.code, done.stdout) == (code, "")
    assert words in done.stderr
    assert not cache.exists()


def test_a_folder_of_other_things_is_left_alone_before_anything_is_built(
    toy: Path, kernel_build: Program, tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").touch()
    done = kernel_build("build", toy, "--out", tmp_path, env={"KERNELWORKS_CACHE": str(tmp_path / "cache")})
    assert (done.code, "is not empty" in done.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_build_that_does_not_start_leaves_nothing(toy: Path, kernel_build: Program, tmp_path: Path) -> None:
    done = kernel_build("build", toy, "--out", tmp_path / "dist", "--sandbox", "bwrp")
    assert (done.code, "did you mean `bwrap`?" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_the_next_command_can_be_pasted(kernel_build: Program, tmp_path: Path) -> None:
    done = kernel_build("init", "toy-kernel", "--dir", tmp_path / "a b")
    assert done.stderr.endswith(f"next: kernel-build build '{tmp_path}/a b'\n")


def test_the_version_is_told_and_help_keeps_what_stands_in_brackets(kernel_build: Program) -> None:
    assert kernel_build("--version").stdout == f"kernel-build {__version__}\n"
    assert "[-- PYTEST_ARGUMENT...]" in kernel_build("test", "--help").stdout


def test_a_table_in_a_pipe_is_aligned_text(toy: Path, kernel_build: Program) -> None:
    title, header, *rows = kernel_build("plan", toy).stdout.partition("left out\n")[0].splitlines()
    assert (title, header.split()[0], len(rows)) == ("variants", "variant", 4)
    assert all(row.isascii() and row == row.rstrip() for row in rows)
    assert {row.index(" cpu ") for row in rows if " cpu " in row} == {header.index("backend") - 1}


@pytest.mark.parametrize(("columns", "form"), [(60, "variant: torch-"), (80, "│ torch-"), (200, "│ torch-")])
def test_a_terminal_shows_every_word_in_one_piece_and_no_escape_codes_where_none_are_wanted(
    toy: Path, kernel_build: Program, columns: int, form: str
) -> None:
    terminal, side = os.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [str(Path(sys.executable).with_name("kernel-build")), "plan", str(toy)]
    with subprocess.Popen(command, stdin=side, stdout=side, env={**os.environ, "NO_COLOR": "1"}) as process:
        os.close(side)
        shown = b""
        with suppress(OSError):  # how a terminal tells its end
            while piece := os.read(terminal, 1 << 16):
                shown += piece
        assert process.wait() == 0
    os.close(terminal)
    text = shown.decode()
    assert form in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= columns
    facts = {word for word in kernel_build("plan", toy).stdout.split() if any(map(str.isdigit, word))}
    assert facts <= set(text.split())


def test_an_interrupt_ends_with_one_line_and_130(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # also in the background
        "from kernelworks_build.cli import app, main; import kernelworks_build.cli.check as check\n"
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
