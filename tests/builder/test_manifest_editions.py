"""Older editions of the format: how they are told apart, what each step changes, and where faults are shown."""

from __future__ import annotations

import pytest

from kernelworks_build.manifest import Manifest, parse_manifest
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.editions import edition_of, upgrade

FIRST = """\
[general]
name = "relu"

[torch]
src = ["binding.cpp"]
universal = false

[kernel.relu]
language = "cuda-hipify" # both
cuda-capabilities = ["9.0"]
rocm-archs = [
  "gfx942", # big
]
depends = ["torch"]
include = ["."]
src = ["relu.cu"]
"""
SECOND = """\
[general]
name = "relu"
universal = false
cuda-minver = "12.4" # oldest
cuda-maxver = "13.0"
python-depends = ["einops", "nvidia-cutlass-dsl"]

[torch]
src = ["binding.cpp"]
minver = "2.9"

[kernel.relu_cuda]
backend = "cuda"
depends = ["torch", "cutlass_sycl"]
src = ["relu.cu"]

[kernel.relu_cpu]
backend = "cpu"
depends = ["torch"]
src = ["relu.cpp"]
"""
THIRD = """\
[general]
name = "relu"
backends = ["cpu"]

[torch]
src = ["binding.cpp"]

[kernel.relu]
backend = "cpu"
depends = ["torch"]
src = ["relu.cpp"]
"""
FOURTH = THIRD.replace('"relu"\nb', '"relu"\nversion = 2\nlicense = "mit"\nb')
FIFTH = FOURTH.replace("version = 2", "version = 2\nedition = 5")


def upgraded(text: str) -> str:
    return upgrade(Document.parse(text), "build.toml", "mit").document.content


def read(text: str) -> Manifest:
    manifest, diagnostics = parse_manifest(text.encode(), "build.toml")
    assert manifest, diagnostics
    return manifest


def said(text: str) -> list[str]:
    """What is said of a manifest, but for its edition and a licence that is not there."""
    _, diagnostics = parse_manifest(text.encode(), "build.toml")
    return [str(one) for one in diagnostics if one.code not in {"old-edition", "no-license"}]


@pytest.mark.parametrize(
    ("text", "edition"),
    [
        (FIRST, 1),
        (FIRST.replace('language = "cuda-hipify" # both\n', ""), 1),
        (FIRST.replace("universal = false\n", "").replace('language = "cuda-hipify" # both\n', ""), 1),
        (SECOND, 2),
        (SECOND.replace('backend = "cpu"\n', ""), 2),
        ('[general]\nname = "relu"\n[torch]\nsrc = ["x.cpp"]\n', 2),
        (THIRD, 3),
        (THIRD.replace("backends", 'version = 1\nlicense = "mit"\nbackends').split("[torch]", maxsplit=1)[0], 3),
        (FOURTH, 4),
        (FOURTH.replace('[torch]\nsrc = ["binding.cpp"]\n', ""), 4),
        (FIFTH, 5),
    ],
)
def test_editions_are_told_apart_by_their_keys(text: str, edition: int) -> None:
    assert edition_of(Document.parse(text)) == edition


def test_edition_1_names_a_language_where_newer_ones_have_a_component_per_backend() -> None:
    assert (
        upgraded(FIRST)
        == """\
[general]
name = "relu"
version = 1
edition = 5
license = "mit"
backends = ["cuda", "rocm"]

[torch]
src = ["binding.cpp"]

[kernel.relu]
backend = "cuda" # both
cuda-capabilities = ["9.0"]
depends = ["torch"]
include = ["."]
src = ["relu.cu"]

[kernel.relu_rocm]
backend = "rocm"
rocm-archs = [
  "gfx942", # big
]
depends = ["torch"]
include = ["."]
src = ["relu.cu"]
"""
    )


def test_edition_2_derives_its_backends_and_keeps_the_bounds_of_cuda_in_general() -> None:
    manifest = read(SECOND)
    assert manifest.backends == ("cpu", "cuda")
    assert manifest.toolkit_bounds("cuda") == ((12, 4), (13, 0))
    assert [one.name for one in manifest.python_depends("cpu")] == ["einops"]
    assert [one.name for one in manifest.python_depends("cuda")] == ["einops", "nvidia-cutlass-dsl"]
    assert manifest.components_of("cuda")[0].depends == ("torch", "sycl_tla")
    assert 'cuda.minver = "12.4" # oldest\n' in upgraded(SECOND)


def test_edition_3_may_lack_version_and_licence() -> None:
    manifest = read(THIRD)
    assert (manifest.general.version, manifest.general.license) == (1, "unknown")
    _, diagnostics = parse_manifest(THIRD.encode(), "build.toml")
    assert [(one.code, one.severity, one.line) for one in diagnostics] == [
        ("old-edition", "warning", 1),
        ("no-license", "warning", 1),
    ]


def test_edition_4_is_edition_5_without_its_number() -> None:
    assert upgraded(FOURTH) == FIFTH
    assert read(FOURTH) == read(FIFTH)


@pytest.mark.parametrize(
    ("text", "backends"),
    [
        (FIRST.replace("universal = false", "universal = true").split("[kernel", maxsplit=1)[0], 7),
        (SECOND.replace("universal = false", "universal = true").split("[kernel", maxsplit=1)[0], 7),
        (SECOND.split("[kernel", maxsplit=1)[0], 7),
        (THIRD.split("[kernel", maxsplit=1)[0], 1),
        (THIRD.split("[torch]", maxsplit=1)[0], 1),
    ],
    ids=["universal 1", "universal 2", "no components 2", "no components 3", "no framework 3"],
)
def test_what_compiles_nothing_is_a_kernel_of_python_alone(text: str, backends: int) -> None:
    manifest = read(text)
    assert manifest.torch_noarch
    assert len(manifest.backends) == backends


def test_sources_that_a_universal_kernel_lists_are_said_to_be_unused() -> None:
    text = SECOND.replace("universal = false", "universal = true").split("[kernel", maxsplit=1)[0]
    assert said(text) == [
        "build.toml:9:1: warning: `src` is not used: nothing is compiled; remove it",
        "build.toml:10:1: warning: `minver` is not used: nothing is compiled; remove it",
    ]


def test_components_without_a_framework_are_not_taken_for_a_kernel_of_python_alone() -> None:
    assert said(THIRD.replace('[torch]\nsrc = ["binding.cpp"]\n', "")) == [
        "build.toml:1:1: the manifest lacks a framework table; add one of `[torch]`, `[tvm-ffi]`, `[torch-noarch]`"
    ]


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        (SECOND, '"12.4"', "12.4", "4:15: `general.cuda-minver` must be text in quotes, not the number `12.4`"),
        (SECOND, '"13.0"', '"12.0"', "5:15: maxver `12.0` is below minver `12.4`, so nothing would be built"),
        (SECOND, '"einops"', '"einop"', "6:19: `einop` is not a known Python package"),
        (SECOND, "[torch]", '[torch]\npyext = [".x"]', "9:10: `.x` is not a file extension; write `x`"),
        (FIRST, '"cuda-hipify"', '"cudaa"', "9:12: `cudaa` is not a known backend of a component"),
        (FIRST, '"gfx942"', '"gfx"', "12:3: `gfx` is not a ROCm architecture"),
        (FIRST, 'src = ["relu.cu"]', "src = 1", "16:7: `kernel.relu.src` must be a list"),
        (THIRD, "backends", "colour = 1\nbackends", "3:1: `colour` is not a key of `[general]`"),
    ],
)
def test_a_fault_is_shown_where_the_file_has_it_and_in_its_own_keys(
    text: str, old: str, new: str, expected: str
) -> None:
    assert text.count(old) == 1
    assert said(text.replace(old, new))[0].startswith(f"build.toml:{expected}")


def test_a_key_that_the_backend_does_not_need_is_said_to_be_unused() -> None:
    assert said(FIRST.replace('"cuda-hipify"', '"metal"')) == [
        "build.toml:10:1: warning: `cuda-capabilities` is not used: `relu` is compiled for `metal` only",
        "build.toml:11:1: warning: `rocm-archs` is not used: `relu` is compiled for `metal` only",
    ]


def test_the_name_of_the_second_component_may_be_taken() -> None:
    taken = '\n[kernel.relu_rocm]\ndepends = []\nsrc = ["x.cu"]\n'
    assert said(FIRST + taken) == [
        (
            "build.toml:18:9: `relu` is compiled for `rocm`, too, as `relu_rocm`, which is there already; "
            "give it another name"
        )
    ]


def test_keys_of_two_editions_that_cannot_stand_together_are_an_error() -> None:
    assert said(f'{SECOND}\n[general.cuda]\nminver = "12.6"\n')[0].startswith(
        "build.toml:1:2: keys of edition 2 and of newer ones are mixed; write it in edition 5 by hand"
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("edition = 5", "edition = 5\nuniversal = true", "5:1: `universal` is not a key of `[general]`; a kernel of"),
        ("edition = 5", 'edition = 5\ncuda-minver = "12.4"', "5:1: `cuda-minver` is not a key of `[general]`; write"),
        ("[torch]", "[torch]\nuniversal = true", "9:1: `universal` is not a key of `[torch]`; a kernel of Python"),
        ('backend = "cpu"', 'backend = "cpu"\nlanguage = "cuda"', "13:1: `language` is not a key of `[kernel.relu]`"),
    ],
)
def test_a_key_that_an_older_edition_had_is_refused_with_what_stands_in_its_place(
    old: str, new: str, expected: str
) -> None:
    _, (one, *_) = parse_manifest(FIFTH.replace(old, new).encode(), "build.toml")
    assert str(one).startswith(f"build.toml:{expected}")
    assert one.code == "former-key"
