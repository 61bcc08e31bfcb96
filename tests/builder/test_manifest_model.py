"""A manifest as the later stages see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kernelworks_build.manifest import Manifest, Version, parse_manifest, source_files
from kernelworks_build.manifest.dependencies import cxx_dependencies
from kernelworks_build.manifest.model import FRAMEWORKS
from kernelworks_build.manifest.schema import SCHEMA, schema_text

RELU = b"""\
[general]
name = "fast-relu"
version = 0
edition = 5
license = "Apache-2.0"
backends = ["cuda", "cpu", "cuda"]
python-depends = ["einops", "tvm-ffi"]
kernel-depends = [{ repo-id = "org/base", version = 2 }]

[general.cuda]
minver = "12.8"
maxver = "13.0.0"
python-depends = ["nvidia-cutlass-dsl"]

[torch]
src = ["torch-ext/torch_binding.cpp", "./torch-ext//torch_binding.h"]
pyext = ["json"]

[torch.stable-abi]
cuda = "2.10"

[kernel.relu-cpu]
backend = "cpu"
depends = []
src = ["cpu/relu.cpp", "torch-ext/torch_binding.h"]

[kernel._relu_cuda]
backend = "cuda"
depends = ["torch", "cutlass_4_0"]
cuda-capabilities = ["8.0+PTX", "9.0a", "10.0f"]
cuda-flags = ["-O2"]
cuda-minver = "12.9"
include = ["cuda/"]
src = ["cuda/relu.cu"]
"""


@pytest.fixture(name="relu")
def read_relu() -> Manifest:
    manifest, diagnostics = parse_manifest(RELU, "build.toml")
    assert [one.severity for one in diagnostics] == ["warning"]  # cuda is listed twice
    assert manifest
    return manifest


def test_names_backends_and_folders_are_derived(relu: Manifest) -> None:
    assert (relu.name, relu.python_name) == ("fast-relu", "fast_relu")
    assert relu.package_folder == "torch-ext/fast_relu"
    assert relu.backends == ("cuda", "cpu")


def test_components_know_their_name_and_speak_one_language_for_every_backend(relu: Manifest) -> None:
    assert [component.name for component in relu.components] == ["relu-cpu", "_relu_cuda"]
    (cuda,) = relu.components_of("cuda")
    assert cuda.capabilities == ("8.0+PTX", "9.0a", "10.0f")
    assert cuda.device_flags == ("-O2",)
    assert cuda.toolkit_minver == Version.parse("12.9")
    assert cuda.include == ("cuda",)
    (cpu,) = relu.components_of("cpu")
    assert (cpu.capabilities, cpu.device_flags, cpu.toolkit_minver) == ((), (), None)


def test_the_stable_abi_of_a_backend_is_major_and_minor_or_none(relu: Manifest) -> None:
    assert relu.stable_abi("cuda") == (2, 10)
    assert relu.stable_abi("cpu") is None
    one_for_all, _ = parse_manifest(
        RELU.replace(b'[torch.stable-abi]\ncuda = "2.10"\n', b'stable-abi = "2"'), "build.toml"
    )
    assert one_for_all
    assert one_for_all.stable_abi("cpu") == one_for_all.stable_abi("cuda") == (2, 0)


def test_bounds_are_given_as_major_and_minor(relu: Manifest) -> None:
    assert relu.toolkit_bounds("cuda") == ((12, 8), (13, 0))
    assert relu.toolkit_bounds("rocm") == relu.torch_bounds() == (None, None)


def test_dependencies_of_a_backend_are_the_common_ones_and_its_own(relu: Manifest) -> None:
    assert [one.package for one in relu.python_depends("cpu")] == ["einops", "apache-tvm-ffi"]
    assert [one.module for one in relu.python_depends("cuda")] == ["einops", "tvm_ffi", "cutlass"]
    assert [(one.repo_id, one.version) for one in relu.kernel_depends("cpu")] == [("org/base", 2)]


def test_a_manifest_cannot_be_changed(relu: Manifest) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        relu.general.version = 2


def test_source_files_are_the_manifest_the_sources_and_what_the_python_package_ships(
    relu: Manifest, tmp_path: Path
) -> None:
    package = tmp_path / "torch-ext" / "fast_relu"
    for file in (
        "__init__.py",
        "layers/__init__.py",
        "t.pyi",
        "c.json",
        "n.txt",
        "_ops.py",
        "__pycache__/x.py",
    ):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).touch()
    assert source_files(relu, tmp_path) == (
        "build.toml",
        "cpu/relu.cpp",
        "cuda/relu.cu",
        "torch-ext/fast_relu/__init__.py",
        "torch-ext/fast_relu/c.json",
        "torch-ext/fast_relu/layers/__init__.py",
        "torch-ext/fast_relu/t.pyi",
        "torch-ext/torch_binding.cpp",
        "torch-ext/torch_binding.h",
    )


NUMBERS = st.lists(st.integers(0, 99), min_size=1, max_size=4)


@given(NUMBERS, NUMBERS)
def test_versions_keep_their_text_and_compare_by_numbers(left: list[int], right: list[int]) -> None:
    def padded(parts: list[int]) -> list[int]:
        return [*parts, 0, 0, 0, 0][:4]

    one, other = (Version.parse(".".join(map(str, parts))) for parts in (left, right))
    assert str(one) == ".".join(map(str, left))
    assert (one < other, one == other) == (padded(left) < padded(right), padded(left) == padded(right))
    assert one.minor == tuple(padded(left)[:2])


def test_noarch_takes_underscores_in_its_arch_keys_with_a_warning() -> None:
    head = RELU[: RELU.index(b"[torch]")].replace(b', "cuda"]', b"]")
    manifest, diagnostics = parse_manifest(
        head + b'[torch-noarch]\ncuda_capabilities = ["9.0"]\nrocm-archs = ["gfx942"]\n[kernel]\n',
        "build.toml",
    )
    assert [str(one) for one in diagnostics] == [
        "build.toml:16:1: warning: `cuda_capabilities` has an underscore; write `cuda-capabilities`"
    ]
    assert manifest
    assert manifest.torch_noarch
    assert manifest.torch_noarch.cuda_capabilities == ("9.0",)


def test_the_committed_schema_is_that_of_the_model() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text(), (
        "run `python -m kernelworks_build.manifest.schema` and commit the result"
    )


def test_the_schema_describes_every_key_and_refuses_unknown_ones() -> None:
    schema = json.loads(schema_text())
    for table in [schema, *schema["$defs"].values()]:
        assert table["additionalProperties"] is False
        assert all("description" in key for key in table.get("properties", {}).values())
    assert {one["required"][0] for one in schema["oneOf"]} == set(FRAMEWORKS)
    assert "UndecidedComponent" not in schema["$defs"]
    assert schema["$defs"]["CudaComponent"]["properties"]["depends"]["items"]["enum"] == sorted(cxx_dependencies())
