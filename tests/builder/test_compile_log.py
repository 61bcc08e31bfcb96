"""What is told of a compile that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelworks_build.action import ActionResult
from kernelworks_build.compile_log import compile_error, failures

LOG = """\
[1/3] compile /src/cpu/good.cpp
[2/3] compile /src/cpu/bad.cpp
FAILED: [code=1] host/k/cpu/bad.cpp.o
cd /build && /opt/sysroot/bin/g++ -O3 -c /src/cpu/bad.cpp -o host/k/cpu/bad.cpp.o
/src/cpu/bad.cpp:3:10: fatal error: launch.h: No such file or directory
    3 | #include "launch.h"
compilation terminated.
ninja: build stopped: subcommand failed.
"""


def result(tmp_path: Path, *, timed_out: bool = False, out_of_memory: bool = False) -> ActionResult:
    log = tmp_path / "log"
    log.write_text(LOG)
    return ActionResult(1, timed_out, out_of_memory, log, tmp_path, 1.0, 1, "bwrap", hermetic=True)


def test_a_failed_command_is_read_with_its_output() -> None:
    (failure,) = failures(LOG)
    assert failure.target == "host/k/cpu/bad.cpp.o"
    assert failure.command.startswith("/opt/sysroot/bin/g++ -O3")
    assert failure.output.splitlines()[-1] == "compilation terminated."


def test_the_error_speaks_in_the_authors_paths_and_names_the_log(tmp_path: Path) -> None:
    project = tmp_path / "my kernel"
    (project / "cpu").mkdir(parents=True)
    error = compile_error(
        result(tmp_path),
        variant="v",
        project=project,
        declared=["cpu/bad.cpp"],
        log=project / "dist" / "v.log",
    )
    assert error.message.splitlines()[2].startswith(f"{project}/cpu/bad.cpp:3:10: fatal error")
    assert error.message.splitlines()[-1].startswith("command: ")
    assert "/src/" not in error.message
    assert "/opt/sysroot/bin/g++ -O3" in error.message
    assert f"the whole log is `{project}/dist/v.log`" in str(error.hint)


def test_a_header_that_is_there_but_not_listed_is_named(tmp_path: Path) -> None:
    project = tmp_path / "kernel"
    (project / "common").mkdir(parents=True)
    (project / "common" / "launch.h").touch()
    error = compile_error(result(tmp_path), variant="v", project=project, declared=[], log=tmp_path / "log")
    assert "`common/launch.h` exists but is not listed in `src` of build.toml" in str(error.hint)
    error = compile_error(
        result(tmp_path), variant="v", project=project, declared=["common/launch.h"], log=tmp_path / "log"
    )
    assert "not listed" not in str(error.hint)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("/src/csrc/src/k.cpp:1: bad", "/home/me/k/csrc/src/k.cpp:1: bad"),
        (
            "g++ -I/src -I/src/cpu '-I/src/a b' -isystem /opt/src",
            "g++ -I/home/me/k -I/home/me/k/cpu '-I/home/me/k/a b' -isystem /opt/src",
        ),
        ('#include "/src/a.h", from /src/b.h:3,', '#include "/home/me/k/a.h", from /home/me/k/b.h:3,'),
        ("/src/cpu/../common/silu.h:1 /src/a/b/../../c.h", "/home/me/k/common/silu.h:1 /home/me/k/c.h"),
        ("-ffile-prefix-map=/src=. ../src/x /srcs/y /src.c", "-ffile-prefix-map=/home/me/k=. ../src/x /srcs/y /src.c"),
    ],
)
def test_only_the_mounted_folder_is_told_as_the_authors(tmp_path: Path, written: str, told: str) -> None:
    (tmp_path / "log").write_text(written)
    ended = ActionResult(1, False, False, tmp_path / "log", tmp_path, 1.0, 1, "bwrap", hermetic=True)
    error = compile_error(ended, variant="v", project=Path("/home/me/k"), declared=[], log=tmp_path / "v.log")
    assert error.message == f"`v` does not compile:\n\n{told}\n"


def test_a_header_outside_of_the_stable_abi_is_answered_with_those_inside(tmp_path: Path) -> None:
    what = '#error "This file should not be included when either TORCH_STABLE_ONLY or TORCH_TARGET_VERSION is defined."'
    (tmp_path / "log").write_text(f"/opt/torch/include/torch/library.h:9:2: error: {what}\n")
    ended = ActionResult(1, False, False, tmp_path / "log", tmp_path, 1.0, 1, "bwrap", hermetic=True)
    error = compile_error(ended, variant="v", project=tmp_path, declared=[], log=tmp_path / "v.log")
    assert "include only torch/csrc/stable/* and torch/headeronly/*" in str(error.hint)


def test_a_command_is_shown_without_what_cmake_adds_for_ninja() -> None:
    added = (
        "/opt/tools/bin/cmake -E cmake_transform_depfile Ninja gccdepfile /opt/kernelworks /opt/kernelworks /build a b"
    )
    (failure,) = failures(LOG.replace("bad.cpp.o\n/src", f"bad.cpp.o && {added}\n/src"))
    assert failure.command == "/opt/sysroot/bin/g++ -O3 -c /src/cpu/bad.cpp -o host/k/cpu/bad.cpp.o"


def test_a_command_is_shown_without_the_script_that_tries_slim_headers() -> None:
    script = "sh /opt/kernelworks/slim/compile.sh /opt/kernelworks/slim/tensor host/k/cpu/bad.cpp.o /usr -- FAST -- "
    (failure,) = failures(LOG.replace("/opt/sysroot/bin/g++", f"{script}/opt/sysroot/bin/g++"))
    assert failure.command == "/opt/sysroot/bin/g++ -O3 -c /src/cpu/bad.cpp -o host/k/cpu/bad.cpp.o"


@pytest.mark.parametrize(
    "said",
    [
        "g++: fatal error: Killed signal terminated program cc1plus",
        "cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes",
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)",
    ],
)
def test_a_compiler_that_memory_ended_is_told_as_such(tmp_path: Path, said: str) -> None:
    (tmp_path / "log").write_text(f"FAILED: [code=1] a.o\ng++ a.cpp\n{said}\n")
    ended = ActionResult(1, False, False, tmp_path / "log", tmp_path, 1.0, 1, "bwrap", hermetic=True)
    assert "more memory" in compile_error(ended, variant="v", project=tmp_path, declared=[], log=tmp_path / "l").message


@pytest.mark.parametrize(
    ("timed_out", "out_of_memory", "words"),
    [
        (True, False, "within the time limit"),
        (False, True, "more memory"),
        (False, False, "does not compile"),
    ],
)
def test_limits_are_told_from_errors(tmp_path: Path, timed_out: bool, out_of_memory: bool, words: str) -> None:
    ended = result(tmp_path, timed_out=timed_out, out_of_memory=out_of_memory)
    assert words in compile_error(ended, variant="v", project=tmp_path, declared=[], log=tmp_path / "log").message


@pytest.mark.parametrize("place", ["/src/cpu/bad.cpp:3:10:", "/src/cpu/bad.cu(3):"])
def test_an_error_is_not_hidden_by_the_warnings_before_it(tmp_path: Path, place: str) -> None:
    noisy = result(tmp_path)
    warnings = "".join(f"/src/cpu/bad.cpp:{line}:1: warning: unused\n" for line in range(100))
    line = next(line for line in LOG.splitlines() if "fatal error" in line)
    noisy.log.write_text(LOG.replace(f"{line}\n", f"{warnings}In file included from x\n{place} error: no\n"))
    error = compile_error(noisy, variant="v", project=tmp_path, declared=(), log=tmp_path / "log")
    assert f"In file included from x\n{place.replace('/src', str(tmp_path))} error: no" in error.message
    assert error.message.count("warning: unused") == 4
    assert "... 96 more lines in the log" in error.message
