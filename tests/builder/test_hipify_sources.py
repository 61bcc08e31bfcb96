"""What torch's hipify makes of a kernel's files: other names inside, and nothing else that an author would notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.toolchain import hipify
from kernelworks_build.toolchain.tree import digest_of

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

PLACES = {"host": "/usr", "cpython": hipify.PYTHON, "torch-rocm-2.13.0": hipify.TORCH}
KERNEL = """\
#include <c10/cuda/CUDAStream.h>
#include "common/cuda_rows.h"

template <typename T, int N>
__global__ void scale(T* x) { x[threadIdx.x] *= N; }

void launch(float* x) {
  scale<float, 2><<<dim3(1), 64, 0, c10::cuda::getCurrentCUDAStream()>>>(x);
  cudaDeviceSynchronize();
}
"""


@dataclass(frozen=True)
class Translate:
    """Runs hipify in the sandbox, in a folder of its own each time."""

    executor: Bwrap
    trees: Mapping[str, Tree]
    folder: Path

    def __call__(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        work = self.folder / str(len(list(self.folder.iterdir())))
        (work / "build").mkdir(parents=True)
        for name, content in files.items():
            path = work / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        action = Action(
            hipify.command("sources", "/src", "/build/made", [".cpp", ".cu", ".h"]),
            tuple(sorted(hipify.environment(hipify.TORCH).items())),
            (
                *(Mount(PLACES[name], tree) for name, tree in self.trees.items()),
                Mount("/src", Tree(digest_of(work / "source"), work / "source")),
            ),
            ("made",),
            Limits(1 << 30, 120),
        )
        result = self.executor.run(action, work / "build", work / "log")
        assert result.exit_code == 0, (work / "log").read_text()
        made = work / "build" / "made"
        return {path.relative_to(made).as_posix(): path.read_bytes() for path in made.rglob("*") if path.is_file()}


@pytest.fixture
def translate(bubblewrap: Bwrap, toolchain: Callable[..., Mapping[str, Tree]], tmp_path: Path) -> Translate:
    return Translate(bubblewrap, toolchain(*PLACES), tmp_path)


def test_cuda_becomes_hip_under_the_authors_names(translate: Translate) -> None:
    header = b"#pragma once\n#include <cuda_runtime.h>\n"
    made = translate({"scale.cu": KERNEL.encode(), "common/cuda_rows.h": header})
    assert made.keys() == {"scale.cu", "common/cuda_rows.h"}
    text = made["scale.cu"].decode()
    assert "#include <c10/hip/HIPStream.h>" in text
    assert '#include "common/cuda_rows.h"' in text
    assert "hipDeviceSynchronize();" in text
    assert "scale<float, 2><<<dim3(1), 64, 0, c10::cuda::getCurrentCUDAStream()>>>(x);" in text
    assert made["common/cuda_rows.h"] == b"#pragma once\n#include <hip/hip_runtime.h>\n"


def test_every_line_keeps_its_number(translate: Translate) -> None:
    text = translate({"scale.cu": KERNEL.encode()})["scale.cu"].decode()
    before, _, own = text.partition("#line 1\n")
    assert before == '#include "hip/hip_runtime.h"\n'
    assert len(own.splitlines()) == len(KERNEL.splitlines())
    assert own.splitlines()[4] == KERNEL.splitlines()[4]


def test_what_is_hip_already_or_no_code_keeps_its_bytes(translate: Translate) -> None:
    files = {"native.hip": b"// once cudaMalloc\n", "torch-ext/toy/__init__.py": b"DEVICE = 'cudaMalloc'\n"}
    assert translate(files) == files


def test_text_in_any_encoding_survives(translate: Translate) -> None:
    plain = b"int cuda = 1;\r\n"
    made = translate({"a.cu": b"// caf\xe9, caf\xc3\xa9\n// cudaFree\n", "plain.cpp": plain})
    assert made == {"a.cu": b"// caf\xe9, caf\xc3\xa9\n// hipFree\n", "plain.cpp": plain}


def test_files_of_one_name_in_two_folders_do_not_meet(translate: Translate) -> None:
    made = translate({"a/x.cu": b'#include "../b/x.cu"\n// cudaFree\n', "b/x.cu": b"// cudaMalloc\n"})
    assert made == {"a/x.cu": b'#include "../b/x.cu"\n// hipFree\n', "b/x.cu": b"// hipMalloc\n"}
