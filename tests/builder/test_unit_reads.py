"""What decides the object of a translation unit, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.toolchain.tree import digest_of
from kernelworks_build.units.reads import Reads, Trees, depfile_paths
from kernelworks_build.units.unit import Slim, Unit

FILES = {
    "src/cuda/scale.cu": '#include "near.h"\n#include <cuda.h>\n#ifdef __CUDA_ARCH__\n#include "device.h"\n#endif\n',
    "src/cuda/near.h": "#if __has_include(<fast.h>) || __has_include(<./far/near.h>)\n#endif\nint scale = FACTOR;\n",
    "src/cuda/device.h": "int only_on_the_device;\n",
    "src/cpu/other.cpp": "int other;\n",
    "src/flags.txt": "-O1\n",
    "torch/include/torch/torch.h": "int torch;\n",
    "cuda/include/cuda.h": "int cuda;\n",
    "cuda/bin/nvcc": "compiler\n",
    "spec/compile.json": "{}\n",
}
COMMAND = (
    *("/opt/cuda/bin/nvcc", "-I/src/own", "-isystem", "/opt/torch/include", "-isystem", "/opt/cuda/include"),
    *("-DFACTOR=2", "-DNAME=_a_1", "@/src/flags.txt", "-c", "/src/cuda/scale.cu", "-o", "scale.o"),
)
DEPFILE = "scale.o: /src/cuda/scale.cu \\\n /src/cuda/near.h /opt/cuda/bin/../include/cuda.h\n"
TARGETS = {"src": "/src", "torch": "/opt/torch", "cuda": "/opt/cuda", "spec": "/spec"}


def trees(root: Path) -> Trees:
    mounts = tuple(Mount(target, Tree(digest_of(root / name), root / name)) for name, target in TARGETS.items())
    return Trees(Action(("sh",), (), mounts, (), Limits(1, 1)))


def unit(*words: str) -> Unit:
    return Unit("/src/cuda/scale.cu", "scale.o", "scale.o.d", words)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def write(name: str) -> Callable[[Path, list[str]], None]:
    def change(root: Path, _command: list[str]) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("int changed;\n")

    return change


def macro(old: str, new: str) -> Callable[[Path, list[str]], None]:
    def change(_root: Path, command: list[str]) -> None:
        command[command.index(old)] = new

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(write("src/cuda/scale.cu"), id="the source"),
        pytest.param(write("src/cuda/near.h"), id="a header of its own"),
        pytest.param(write("src/cuda/device.h"), id="a header that only another pass of the compiler reads"),
        pytest.param(write("src/flags.txt"), id="a file that a flag names"),
        pytest.param(write("src/own/near.h"), id="a new header of the same name elsewhere on the path"),
        pytest.param(write("src/cuda/cuda.h"), id="a new header beside the source, named as one of the toolkit"),
        pytest.param(write("src/own/fast.h"), id="a header that was asked for and was not there"),
        pytest.param(write("src/own/far/near.h"), id="a new header that was asked for by a path with dots"),
        pytest.param(write("torch/include/cuda.h"), id="a header of torch named as one of the toolkit"),
        pytest.param(write("torch/include/fast.h"), id="a header of torch that was asked for"),
        pytest.param(write("cuda/include/other.h"), id="anything in the tree of the compiler"),
        pytest.param(macro("-DFACTOR=2", "-DFACTOR=3"), id="a macro that a file mentions"),
        pytest.param(macro("-c", "-O3"), id="a flag"),
    ],
)
def test_a_unit_is_compiled_again_for(root: Path, change: Callable[[Path, list[str]], None]) -> None:
    reads = Reads.of(unit(*COMMAND), DEPFILE, trees(root))
    assert reads
    before = reads.key(unit(*COMMAND), trees(root))
    command = list(COMMAND)
    change(root, command)
    assert reads.key(unit(*command), trees(root)) != before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(write("src/cpu/other.cpp"), id="a file that it does not read"),
        pytest.param(write("src/own/another.h"), id="a new header that nothing asks for"),
        pytest.param(write("torch/include/torch/torch.h"), id="another torch, of which it reads nothing"),
        pytest.param(write("spec/compile.json"), id="the commands of other units"),
        pytest.param(macro("-DNAME=_a_1", "-DNAME=_b_2"), id="a macro that no file mentions"),
    ],
)
def test_a_unit_is_not_compiled_again_for(root: Path, change: Callable[[Path, list[str]], None]) -> None:
    reads = Reads.of(unit(*COMMAND), DEPFILE, trees(root))
    assert reads
    before = reads.key(unit(*COMMAND), trees(root))
    command = list(COMMAND)
    change(root, command)
    assert reads.key(unit(*command), trees(root)) == before


def test_a_tree_of_headers_counts_whole_once_a_file_of_it_is_read(root: Path) -> None:
    depfile = f"{DEPFILE.rstrip()} /opt/torch/include/torch/torch.h\n"
    reads = Reads.of(unit(*COMMAND), depfile, trees(root))
    assert reads
    before = reads.key(unit(*COMMAND), trees(root))
    (root / "torch/include/elsewhere.h").write_text("int changed;\n")
    assert reads.key(unit(*COMMAND), trees(root)) != before


def test_what_decides_whether_slim_headers_are_tried_counts(root: Path) -> None:
    reads = Reads.of(unit(*COMMAND), DEPFILE, trees(root))
    assert reads
    tried = replace(unit(*COMMAND), slim=Slim("/opt/kernelworks/slim/tensor", ("/opt/torch",), ("FAST",)))
    before = reads.key(tried, trees(root))
    assert reads.key(replace(tried, slim=None), trees(root)) != before
    assert (
        reads.key(replace(tried, slim=Slim("/opt/kernelworks/slim/tensor", ("/opt/torch",), ())), trees(root)) != before
    )
    (root / "torch/include/torch/torch.h").write_text("#define FAST\n")
    assert reads.key(tried, trees(root)) != before


def test_a_file_that_is_gone_leaves_no_key(root: Path) -> None:
    reads = Reads.of(unit(*COMMAND), DEPFILE, trees(root))
    (root / "src/cuda/near.h").unlink()
    assert reads
    assert reads.key(unit(*COMMAND), trees(root)) is None


def test_a_macro_that_may_be_pasted_together_counts(root: Path) -> None:
    (root / "src/cuda/near.h").write_text("#define JOIN(a, b) a##b\nint x = JOIN(NA, ME);\n")
    reads = Reads.of(unit(*COMMAND), DEPFILE, trees(root))
    assert reads
    assert reads.macros == {"NAME"}


def test_a_file_that_the_assembler_reads_is_in_no_list_so_nothing_is_kept(root: Path) -> None:
    (root / "src/cuda/near.h").write_text('asm(".incbin \\"table.bin\\"");\n')
    assert Reads.of(unit(*COMMAND), DEPFILE, trees(root)) is None


def test_a_dependency_file_is_read_as_make_reads_it() -> None:
    text = "a.o : /src/my\\ kernel.cu \\\n  /src/c$$h.h /src/cpu/../common/b.h\n"
    assert depfile_paths(text) == {"/src/my kernel.cu", "/src/c$h.h", "/src/common/b.h"}
