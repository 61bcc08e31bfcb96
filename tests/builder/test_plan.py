"""Which variants are built, and what is said of the others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kernelworks_build.action import Tree
from kernelworks_build.compile import build_id, compile_spec, make_action
from kernelworks_build.errors import PlanError
from kernelworks_build.manifest import Manifest, parse_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan
from kernelworks_build.planned import BuildPlan
from kernelworks_build.toolchain.lock import LockSet

MANIFEST = """
[general]
name = "my-relu"
version = 1
edition = 5
license = "apache-2.0"
backends = ["cpu", "cuda"]

[torch]
src = ["torch-ext/binding.cpp", "torch-ext/binding.h"]

[torch.stable-abi]
cpu = "2.11"
cuda = "2.12"

[kernel.relu_cpu]
backend = "cpu"
depends = ["torch"]
src = ["cpu/relu.cpp", "cpu/relu.h"]
include = ["cpu"]
cxx-flags = ["-DFAST"]

[kernel.relu_cuda]
backend = "cuda"
depends = ["torch"]
src = ["cuda/relu.cu", "cuda/host.cpp"]
cuda-capabilities = ["9.0a", "8.0+PTX"]
cuda-flags = ["-std=c++17", "--use_fast_math"]
"""
CPU = "torch-stable-abi211-cpu-x86_64-linux"
CUDA = "torch-stable-abi212-cu130-x86_64-linux"
CUDA_124 = "torch-stable-abi212-cu124-x86_64-linux"
CUDA_132 = "torch-stable-abi212-cu132-x86_64-linux"
MATRIX = Matrix.load()
LOCKS = set(LockSet.load().locks)
GOLDEN = Path(__file__).parent / "golden" / "compile"


def manifest(text: str = MANIFEST) -> Manifest:
    found, diagnostics = parse_manifest(text.encode(), "build.toml")
    assert found, diagnostics
    return found


def plan(text: str = MANIFEST, locks: set[str] = LOCKS, **archs: list[str]) -> BuildPlan:
    return make_plan(manifest(text), MATRIX, locks, archs)


def test_a_stable_abi_kernel_has_one_variant_per_backend_and_toolkit() -> None:
    cpu, cuda_124, cuda, cuda_132 = plan().variants
    assert (cpu.name, cuda_124.name, cuda.name, cuda_132.name) == (CPU, CUDA_124, CUDA, CUDA_132)
    assert cpu.torch_releases == ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
    assert cuda.torch_releases == cpu.torch_releases[1:]
    assert cuda_124.torch_releases == ("2.12.1",)  # the others are not known to be published with CUDA 12
    assert cuda_132.torch_releases == ("2.12.1", "2.13.0", "2.15.0")  # 2.14.1 is published with 13.0 alone
    assert (cpu.headers.release, cuda.headers.release) == ("2.11.0", "2.12.1")
    assert (cuda.backend.archs.sass, cuda.backend.archs.ptx) == (("8.0", "9.0a"), ("8.0",))
    assert plan().skipped == ()


def test_archs_of_the_command_line_replace_those_of_the_manifest() -> None:
    assert plan(cuda=["12.0"]).variants[1].backend.archs.sass == ("12.0",)
    with pytest.raises(PlanError, match="`sm_90` is not a compute capability"):
        plan(cuda=["sm_90"])


@pytest.mark.parametrize(
    ("old", "new", "locks", "subject", "reason"),
    [
        ('backends = ["cpu", "cuda"]', 'backends = ["cpu", "cuda", "xpu"]', LOCKS, "xpu", "not built yet"),
        (
            "[torch]",
            '[general.cuda]\nminver = "13.1"\n\n[torch]',
            LOCKS,
            CUDA,
            "toolkit 13.0 is older than minver 13.1",
        ),
        (
            "[torch]",
            '[general.cuda]\nmaxver = "12.9"\n\n[torch]',
            LOCKS,
            CUDA,
            "13.0 is newer than maxver 12.9",
        ),
        ('["9.0a", "8.0+PTX"]', '["8.0", "11.8"]', LOCKS, f"{CUDA} relu_cuda", "no code for `11.8`"),
        (
            'backend = "cuda"\ndepends = ["torch"]',
            'backend = "cuda"\ndepends = ["torch", "sycl_tla"]',
            LOCKS,
            CUDA,
            "`sycl_tla` in `depends` cannot be provided: the SYCL compiler that it needs is not locked",
        ),
        ("", "", LOCKS - {"cuda-13.0"}, CUDA, "`cuda-13.0` is not locked"),
    ],
)
def test_what_is_not_built_is_named_with_the_reason(
    old: str, new: str, locks: set[str], subject: str, reason: str
) -> None:
    text = MANIFEST.replace(old, new, 1) if old else MANIFEST
    if "xpu" in new:
        text += '\n[kernel.x]\nbackend = "xpu"\ndepends = ["torch"]\nsrc = ["x.cpp"]\n'
    found = [item for item in plan(text, locks).skipped if item.subject == subject]
    assert [item.reason for item in found if reason in item.reason], plan(text, locks).skipped


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            '["9.0a", "8.0+PTX"]',
            '["10.3a", "11.8"]',
            "no code for `10.3a`, `11.8`, so `relu_cuda` would have none (supp",
        ),
        ('cuda = "2.12"', 'cuda = "2.99"', "no torch release from 2.99 on is locked (newest: 2.15.0)"),
        ('cuda = "2.12"', 'cuda = "2.4"', "torch 2.4 has no stable ABI; the first is that of 2.9"),
    ],
)
def test_a_backend_that_the_manifest_makes_impossible_is_an_error(old: str, new: str, words: str) -> None:
    with pytest.raises(PlanError, match=re.escape(words)):
        plan(MANIFEST.replace(old, new))


def test_a_pattern_selects_variants_and_one_that_matches_none_is_an_error() -> None:
    assert [item.name for item in plan().select(["*-cu130-*"]).variants] == [CUDA]
    assert [item.name for item in plan().select(["*-cu*"]).variants] == [CUDA_124, CUDA, CUDA_132]
    with pytest.raises(PlanError, match=r"no variant matches `\*rocm\*`; the plan has"):
        plan().select(["*rocm*"])


def test_who_selects_variants_hears_of_what_is_left_out_of_these_alone() -> None:
    old = plan(locks=LOCKS - {"cuda-12.4", "cuda-13.2"})
    assert {item.subject for item in old.select([CUDA]).asked_for.skipped} == set()
    with pytest.raises(PlanError, match=rf"matches `{CUDA_124}`\nnot built: `{CUDA_124}`: `cuda-12.4` is not locked"):
        old.select([CUDA_124])


@pytest.mark.parametrize(
    ("old", "new", "selected", "subject"),
    [
        ('backends = ["cpu", "cuda"]', 'backends = ["cpu"]', [], "cuda"),
        ("[torch]", '[general.cuda]\nminver = "13.1"\n\n[torch]', [], CUDA),
        ('cuda-flags = ["-std', 'cuda-minver = "13.1"\ncuda-flags = ["-std', [], CUDA),
        ("", "", [CUDA], CPU),
    ],
)
def test_what_the_author_leaves_out_is_told_apart_from_what_cannot_be_built(
    old: str, new: str, selected: list[str], subject: str
) -> None:
    locks = LOCKS - {"cuda-12.4"}
    found = plan(MANIFEST.replace(old, new, 1), locks).select(selected)
    assert subject in [item.subject for item in found.skipped if item.by == "author"]
    assert subject in [one for subjects in found.reasons["not asked for"].values() for one in subjects]
    assert not any(item.by == "author" for item in found.asked_for.skipped)
    whole = plan(locks=locks)
    assert [(item.subject, item.by) for item in whole.skipped] == [(CUDA_124, "builder")]
    assert whole.asked_for == whole


def test_the_torch_releases_that_the_author_bounds_are_left_out_by_the_author() -> None:
    text = MANIFEST.split("[torch.stable-abi]", maxsplit=1)[0].replace("[torch]", '[torch]\nminver = "2.13"')
    text += '[kernel.relu_cpu]\nbackend = "cpu"\ndepends = ["torch"]\nsrc = ["cpu/relu.cpp"]\n'
    found = plan(text.replace('["cpu", "cuda"]', '["cpu"]'), LOCKS - {"torch-2.14.1"}).skipped
    by = {item.subject: item.by for item in found}
    assert (by["cpu, torch 2.12.1"], by["cpu, torch 2.14.1"]) == ("author", "builder")


def test_what_is_left_out_for_the_same_reason_is_told_in_one_line() -> None:
    text = MANIFEST.replace('["9.0a", "8.0+PTX"]', '["9.0", "11.8"]')
    told = list(plan(text).explained())
    assert len(told) == 2  # 13.0 and 13.2 have the same list, 12.4 another one
    assert f"left out: `{CUDA} relu_cuda`, `{CUDA_132} relu_cuda`: no code for `11.8` with this toolkit" in told[1]


def test_what_a_variant_lacks_is_told_apart_from_variants_that_are_not_built() -> None:
    text = MANIFEST.replace('["9.0a", "8.0+PTX"]', '["9.0", "11.8"]')
    reasons = plan(text, LOCKS - {"cuda-12.4", "cuda-13.2"}).reasons
    told = {how: {subject for subjects in found.values() for subject in subjects} for how, found in reasons.items()}
    assert told["left out"] == {f"{CUDA} relu_cuda"}
    assert {CUDA_124, CUDA_132} <= told["not built"]


def test_every_kind_of_variant_lowers_to_the_golden_compile_json() -> None:
    for planned in plan(locks=LOCKS - {"cuda-12.4", "cuda-13.2"}).variants:
        row = MATRIX.backends[planned.backend.kind]
        ident = build_id("my_relu", planned.backend.kind, planned.name, "0" * 64)
        spec = compile_spec(manifest(), planned, row, ident)
        golden = GOLDEN / f"{planned.name}.json"
        assert json.loads(golden.read_text()) == spec.document, f"if this is meant: write the new document to {golden}"


def test_headers_below_csrc_are_found_after_those_of_the_include_folders_where_there_are_any() -> None:
    def folders(text: str) -> list[str]:
        (planned,) = plan(text).select([CPU]).variants
        document = compile_spec(manifest(text), planned, MATRIX.backends["cpu"], "_my_relu_cpu_0").document
        return [word for word in document["units"][1]["command"] if word.startswith("-I")]

    assert folders(MANIFEST) == ["-I/src/cpu", "-I/src"]
    with_csrc = MANIFEST.replace('"cpu/relu.h"', '"cpu/relu.h", "csrc/a/b.h"')
    assert folders(with_csrc) == ["-I/src/cpu", "-I/src/csrc", "-I/src"]


def test_the_op_namespace_follows_sources_and_variant() -> None:
    ident = build_id("my_relu", "cpu", CPU, "0" * 64)
    assert ident.startswith("_my_relu_cpu_")
    assert ident == build_id("my_relu", "cpu", CPU, "0" * 64)
    assert len({ident, build_id("my_relu", "cpu", CPU, "1" * 64), build_id("my_relu", "cpu", CUDA, "0" * 64)}) == 3


def test_an_action_is_told_by_its_inputs_and_not_by_where_they_lie_or_what_they_may_use() -> None:
    (planned,) = plan().select([CUDA]).variants
    spec = compile_spec(manifest(), planned, MATRIX.backends["cuda"], "_my_relu_cuda_0")

    def action(place: str, digest: str = "1") -> str:
        names = (*planned.trees, "source", "spec", "builder")
        trees = {name: Tree(digest if name == "source" else "0", Path(place, name)) for name in names}
        made = make_action(planned, spec, trees)
        assert [mount.target for mount in made.mounts if mount.tree.path.name == "cuda-13.0"] == ["/opt/cuda"]
        looser = replace(made, limits=replace(made.limits, memory_bytes=1))
        assert looser.digest() == made.digest()
        return made.digest()

    assert action("/a") == action("/b")
    assert action("/a") != action("/a", digest="2")


def test_only_torch_kernels_are_lowered() -> None:
    planned, *_ = plan().variants
    noarch = manifest(MANIFEST.replace("[torch]", "[torch-noarch]", 1).split("src =", 1)[0])
    with pytest.raises(PlanError, match="kernels of this framework are not compiled"):
        compile_spec(noarch, planned, MATRIX.backends["cpu"], "_x")
