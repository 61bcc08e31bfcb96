"""Translates CUDA into HIP by the hipify of the torch that is built for; runs inside the sandbox.

`translate.py headers FROM INTO` makes torch's headers, as torch's own build for ROCm does, and
`translate.py sources FROM INTO SUFFIX...` a kernel's sources with these suffixes, each under the path that it has.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hipify import hipify_python  # type: ignore[import-not-found]  # of torch, and not of this machine

_LAYOUT = {"ATen": "aten/src/ATen", "c10": "c10", "torch": "torch"}
"""Folder of torch's headers -> where it lies in torch's sources, by which hipify decides."""

_TRANSLATED = (
    *("c10/cuda/*", "torch/*", "aten/src/ATen/cuda/*"),
    *(f"aten/src/ATen/native/{part}/*" for part in ("cudnn", "quantized/cudnn")),
    *(f"aten/src/ATen/native{part}/cuda/*" for part in ("", "/nested", "/quantized", "/sparse")),
    "aten/src/ATen/native/transformers/cuda/sdp_utils.h",
    "aten/src/ATen/native/transformers/cuda/mem_eff_attention/*_utils.h",
)
_KEPT = ("*/hip/*", "aten/src/ATen/cuda/CUDAConfig.h")

_CONFIG, _HIP_CONFIG = "ATen/cuda/CUDAConfig.h", "ATen/hip/HIPConfig.h"
_SETTINGS = {
    "AT_CUDNN_ENABLED()": "0",
    "AT_CUSPARSELT_ENABLED()": "0",
    "AT_ROCM_ENABLED()": "1",
    "NVCC_FLAGS_EXTRA": '""',
}
"""What a build of torch for ROCm says where one for CUDA says something else."""

_APART = Path("/tmp/apart")  # noqa: S108  # the sandbox's own


def headers(source: Path, into: Path) -> None:
    """Copy torch's headers from `source` and add those for HIP; some change in their place."""
    _copy(source, into)
    work = into / "work"
    for name, place in _LAYOUT.items():
        (work / place).parent.mkdir(parents=True, exist_ok=True)
        (into / name).rename(work / place)
    _hipify(work, includes=_below(work, _TRANSLATED), ignores=_below(work, _KEPT))
    for name, place in _LAYOUT.items():
        (work / place).rename(into / name)
    shutil.rmtree(work)
    config = _configured((into / _CONFIG).read_text(encoding="utf-8"))
    for path in (_CONFIG, _HIP_CONFIG):
        (into / path).write_text(config, encoding="utf-8")


def _configured(text: str) -> str:
    for name, value in _SETTINGS.items():
        text, found = re.subn(rf"(?m)^(#define {re.escape(name)}) .*", rf"\1 {value}", text)
        if not found:
            sys.exit(f"{_CONFIG} does not define {name}")
    return text


def sources(source: Path, into: Path, *suffixes: str) -> None:
    """Copy a kernel from `source` and translate its files with one of `suffixes` in place; others stay as they are.

    Every file lies in a folder of its own meanwhile: hipify finds none of the others, and so renames no include.
    """
    _copy(source, into)
    _APART.mkdir()
    code = [path for path in _files(into) if path.suffix in suffixes]
    apart = {path: _APART / str(number) / path.name for number, path in enumerate(code)}
    for path, copy in apart.items():
        copy.parent.mkdir(parents=True)
        copy.write_text(path.read_text(encoding="latin-1"), encoding="utf-8")  # whatever its encoding, it is text
    _hipify(_APART, extra_files=list(map(str, apart.values())), hipify_extra_files_only=True, is_pytorch_extension=True)
    for path, copy in apart.items():
        made = hipify_python.HIPIFY_FINAL_RESULT[str(copy)].hipified_path
        if made not in {None, str(copy)}:
            text = _with_the_same_lines(copy.read_text(encoding="utf-8"), Path(made).read_text(encoding="utf-8"))
            path.write_text(text, encoding="latin-1")


def _with_the_same_lines(text: str, translated: str) -> str:
    """`translated` without hipify's mark, and with the line numbers of `text` below what was put before it."""
    translated = translated.removeprefix(hipify_python.HIPIFY_C_BREADCRUMB)
    added = translated.count("\n") - text.count("\n")
    lines = translated.splitlines(keepends=True)
    return "".join([*lines[:added], "#line 1\n", *lines[added:]]) if added else translated


def _hipify(folder: Path, **options: Sequence[str] | bool) -> None:
    """Run hipify in `folder`; launches stay `<<<...>>>`, which the compiler knows."""
    name = str(folder)
    result = hipify_python.hipify(name, output_directory=name, show_progress=False, hip_clang_launch=True, **options)
    failed = sorted(path for path, item in result.items() if "no permissions" in item.status)
    if failed:
        sys.exit(f"hipify could not write what it made of {', '.join(failed)}")


def _below(folder: Path, patterns: Sequence[str]) -> list[str]:
    return [f"{folder}/{pattern}" for pattern in patterns]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _copy(source: Path, into: Path) -> None:
    """Contents only: what is copied is read-only there."""
    for path in _files(source):
        copy = into / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


if __name__ == "__main__":
    _MODES: dict[str, Callable[..., None]] = {"headers": headers, "sources": sources}
    _MODES[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
