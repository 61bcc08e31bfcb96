"""What `check` says of values that are faulty or surprising in public manifests, each with its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelworks_build.manifest import check_manifest, parse_manifest

VALID = """\
[general]
name = "relu"
version = 1
edition = 5
license = "apache-2.0"
backends = ["cuda", "rocm"]

[general.hub]
repo-id = "org/relu"

[torch]
src = ["binding.cpp"]
cxx-flags = ["-O2"]

[kernel.relu_cuda]
backend = "cuda"
depends = ["torch"]
cuda-capabilities = ["9.0a"]
cuda-flags = ["-O3"]
src = ["relu.cu"]

[kernel.relu_rocm]
backend = "rocm"
depends = []
rocm-archs = ["gfx942"]
src = ["relu.cu"]
"""


def said(text: str) -> list[tuple[str, str, int, int]]:
    """Severity, code, line and column of what is said of a manifest."""
    _, diagnostics = parse_manifest(text.encode(), "build.toml")
    return [(one.severity, one.code, one.line, one.column) for one in diagnostics]


def test_the_manifest_that_the_cases_change_is_faultless() -> None:
    assert said(VALID) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('["9.0a"]', '["9.0", "11.8"]', ("warning", "unknown-arch", 18, 29)),
        ('["9.0a"]', '["11.8"]', ("error", "unknown-arch", 18, 22)),
        ('["9.0a"]', '["99999.0"]', ("error", "bad-value", 18, 22)),
        ('["gfx942"]', '["gfx940", "gfx942"]', ("warning", "unknown-arch", 25, 15)),
        ('["gfx942"]', '["gfx99999"]', ("error", "unknown-arch", 25, 15)),
        ('["gfx942"]', '["gfx99999:xnack+", "gfx942"]', ("error", "bad-value", 25, 15)),
        ('["gfx942"]', '["gfx1100:xnack+", "gfx942"]', ("error", "bad-value", 25, 15)),
        ('["gfx942"]', '["gfx942", "gfx942:xnack+"]', ("error", "excluded-arch", 25, 14)),
        ('["binding.cpp"]', '["binding.cpp", "binding.cu"]', ("error", "not-compiled", 12, 23)),
        ('"relu.cu"]\n\n', '"relu.cu", "a.hip"]\n\n', ("error", "not-compiled", 20, 19)),
        ('["-O3"]', '["-std=c++17"]', ("warning", "standard-flag", 19, 15)),
        ('["-O3"]', '["-rdc=true"]', ("error", "relocatable-flag", 19, 15)),
        ('["-O2"]', '["--offload-arch=gfx942"]', ("error", "arch-flag", 13, 14)),
        ('["-O2"]', '["--sysroot=/"]', ("error", "toolchain-flag", 13, 14)),
        ('["-O3"]', '["--threads=1"]', ("warning", "jobs-flag", 19, 15)),
        ('["-O3"]', '["-lineinfo"]', ("warning", "debug-flag", 19, 15)),
        ('["-O3"]', '["-res-usage"]', ("warning", "printing-flag", 19, 15)),
        ('["-O3"]', '["-Xptxas=-v"]', ("warning", "printing-flag", 19, 15)),
        ('["-O3"]', '["--ptxas-options=--verbose,--warn-on-spills"]', ("warning", "printing-flag", 19, 15)),
        ('["-O2"]', '["-O2", "-g"]', ("warning", "debug-flag", 13, 21)),
        ('["-O2"]', '["-lgomp"]', ("warning", "linker-flag", 13, 14)),
        ('["relu.cu"]\n\n', '["relu.cu", "relu.cu"]\n\n', ("warning", "listed-twice", 20, 19)),
        ("[torch]", '[torch]\nstable-abi = { cpu = "2.10" }', ("warning", "undeclared-backend", 12, 16)),
        ('"cuda", "rocm"', '"cuda"', ("warning", "undeclared-backend", 23, 11)),
        ("[torch]", '[general.cuda]\nminver = "13.0"\nmaxver = "12.9"\n\n[torch]', ("error", "empty-range", 13, 10)),
        ('"org/relu"', '"org/relu"\nbranc = "x"', ("error", "unknown-key", 10, 1)),
        ('backend = "rocm"', 'backend = "rocmm"', ("error", "bad-value", 23, 11)),
        ('name = "relu"', 'name = "a.b"', ("error", "bad-value", 2, 8)),
        ("edition = 5\n", "", ("warning", "old-edition", 1, 2)),
    ],
)
def test_a_faulty_or_surprising_value_is_told_with_its_place_and_code(
    old: str, new: str, expected: tuple[str, str, int, int]
) -> None:
    assert VALID.count(old) == 1
    assert said(VALID.replace(old, new)) == [expected]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('depends = ["torch"]', "depends = []"),
        ("version = 1", "version = 0"),
        ('"org/relu"', '"org/relu"\nbranch = "ep-support"'),
        ('"apache-2.0"', '"other"'),
        ('["9.0a"]', '["7.0", "8.0", "10.0f", "10.1", "12.0+PTX"]'),
        ('["gfx942"]', '["gfx942:sramecc+:xnack-", "gfx942:sramecc-:xnack-", "gfx90a", "gfx1201"]'),
        ('["-O3"]', '["-D__CUDA_NO_HALF_OPERATORS__", "-DENABLE_BF16", "-Xfatbin=-compress-all"]'),
        ("[torch]", '[general.cuda]\nmaxver = "12.9"\n\n[torch]'),
        ('src = ["relu.cu"]\n\n', 'src = ["relu.cu"]\ncuda-minver = "12.9"\n\n'),
    ],
)
def test_what_is_legal_is_not_commented_on(old: str, new: str) -> None:
    assert VALID.count(old) == 1
    assert said(VALID.replace(old, new)) == []


@pytest.mark.parametrize("value", ["11.8", "99999.0"])
def test_a_component_whose_capabilities_are_all_faulty_is_refused_with_the_supported_ones(value: str) -> None:
    manifest, (fault,) = parse_manifest(VALID.replace("9.0a", value).encode(), "build.toml")
    assert manifest is None
    assert "8.9, 9.0, 10.0" in (fault.hint or "")


def test_blanks_and_letters_of_every_script_may_be_in_paths(tmp_path: Path) -> None:
    project = tmp_path / "mein Kernel ядро"
    for file in ("csrc/größer als.cpp", "torch-ext/relu/__init__.py", "relu.cu"):
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).touch()
    (project / "build.toml").write_text(VALID.replace('"binding.cpp"', '"csrc/größer als.cpp"'), encoding="utf-8")
    assert check_manifest(project) == []


def test_a_source_in_a_submodule_that_was_not_checked_out_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / ".gitmodules").write_text('[submodule "x"]\n\tpath = third party/x\n\turl = https://example.org/x\n')
    project = tmp_path / "third party/x"
    (project / "torch-ext/relu").mkdir(parents=True)
    for file in ("torch-ext/relu/__init__.py", "relu.cu"):
        (project / file).touch()
    (project / "build.toml").write_text(VALID)
    (missing,) = check_manifest(project)
    assert (missing.code, missing.hint) == (
        "missing-source",
        "`third party/x` is a git submodule: run `git submodule update --init --recursive`",
    )
