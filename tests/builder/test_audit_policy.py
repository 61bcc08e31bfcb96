"""The policy file is in its canonical form and says what the platform's specification says."""

from __future__ import annotations

from importlib.resources import files

import pytest

from kernelworks.binaries.demangle import demangle
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi
from kernelworks_build.audit.policy import Policy
from kernelworks_build.audit.rules import RULES
from kernelworks_build.claims import Claims
from kernelworks_build.toml import read_toml


def claims(cpu: str, framework: str, backend: BackendFacts) -> Claims:
    return Claims(
        name="v",
        id="_v",
        package="v",
        framework=FrameworkFacts(framework, (2, 11)),
        backend=backend,
        python_abi=PythonAbi("abi3", (3, 9)),
        platform=Platform(cpu, "linux", (2, 28)),
        torch_releases=(),
    )


def test_every_list_of_the_policy_file_is_sorted_and_names_nothing_twice() -> None:
    document = read_toml(files("kernelworks_build.audit").joinpath("policy.toml"))
    lists = [value for row in document["libraries"] for value in row.values()]
    lists += [document["vendored"]["never"], document["symbols"]["unversioned"], list(document["versions"])]
    for entries in lists:
        assert entries == sorted(set(entries))


def test_the_caps_are_those_of_manylinux_2_28() -> None:
    policy = Policy.load()
    assert policy.name == "manylinux_2_28"
    assert policy.caps == {"CXXABI": (1, 3, 11), "GCC": (7, 0, 0), "GLIBC": (2, 28), "GLIBCXX": (3, 4, 24)}


def test_what_may_be_needed_follows_from_the_claims() -> None:
    policy = Policy.load()
    bare = policy.libraries(claims("aarch64", "none", BackendFacts("cpu", None)))
    full = policy.libraries(claims("x86_64", "torch", BackendFacts("cuda", (12, 4))))
    assert {"libc.so.6", "libstdc++.so.6", "ld-linux-aarch64.so.1"} <= set(bare)
    assert not [name for name in bare if "torch" in name or "cuda" in name]
    assert {"libtorch_cuda.so", "libc10.so", "ld-linux-x86-64.so.2"} <= set(full)
    assert full["libcudart.so.12"] == {"libcudart.so.12"}
    assert full["libc.so.6"] == frozenset()


@pytest.mark.parametrize(
    ("name", "is_torch"),
    [
        ("_ZN2at4_ops4relu4callERKNS_6TensorE", True),
        ("_ZNK3c1010TensorImpl5sizesEv", True),
        ("_ZTIN5torch8autograd8FunctionE", True),
        ("aoti_torch_get_sizes", True),
        ("_Z7forwardRKN2at6TensorE", False),
        ("__libc_single_threaded", False),
        ("_ZN4main2at1fEv", False),
    ],
)
def test_torch_s_names_are_told_from_others_that_mention_it(name: str, is_torch: bool) -> None:
    assert bool(Policy.load().torch_symbols.fullmatch(name)) is is_torch


@pytest.mark.parametrize(
    ("name", "is_runtime"),
    [
        ("_ZNOSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv", True),
        ("_ZSt4cout", True),
        ("_ZTVSt9exception", True),
        ("_ZNSt6vectorIN2at6TensorESaIS1_EE9push_backERKS1_", False),
        ("_ZN3c106detailStE", False),
    ],
)
def test_std_symbols_are_the_runtime_s_unless_they_are_about_torch(name: str, is_runtime: bool) -> None:
    assert bool(Policy.load().cxx_runtime_symbols.fullmatch(name)) is is_runtime


def test_rules_have_unique_ids_and_one_sentence_titles() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.title[0].islower() and not rule.title.endswith(".") for rule in RULES)


def test_c_plus_plus_names_are_demangled_and_others_left_alone() -> None:
    assert demangle("aoti_torch_get_sizes") == "aoti_torch_get_sizes"
    assert demangle("_Znonsense") == "_Znonsense"
    assert demangle("_ZN2at1fEi") in {"at::f(int)", "_ZN2at1fEi"}  # without a C++ runtime it stays as it is


@pytest.mark.parametrize(
    ("name", "is_of_the_toolkit"),
    [
        ("hipLaunchKernel", True),
        ("__hipRegisterFatBinary", True),
        ("hipblasLtMatmul", True),
        ("rocblas_create_handle", True),
        ("hipsterHat", False),
        ("cudaLaunchKernel", False),
    ],
)
def test_the_libraries_that_a_torch_for_rocm_brings_are_told_by_their_names(name: str, is_of_the_toolkit: bool) -> None:
    policy = Policy.load()
    assert bool(policy.toolkit_symbols["rocm"].fullmatch(name)) is is_of_the_toolkit
    assert policy.toolkit_symbols.keys() == policy.unlisted_symbols.keys()


@pytest.mark.parametrize(
    ("name", "is_unlisted"),
    [
        ("_ZN3c104cuda20getCurrentCUDAStreamEa", True),
        ("_ZN3c103hip20getCurrentHIPStreamEa", True),
        ("_ZN2at7Context15getROCmAttribEv", True),
        ("hipblasLtMatmul", True),
        ("hipblasSgemm", False),
        ("aoti_torch_get_current_cuda_stream", True),
        ("aoti_torch_device_type_cuda", False),
        ("_ZN2at4_ops4relu4callERKNS_6TensorE", False),
        ("_ZN5torch12autocastship2ofEv", False),
    ],
)
def test_the_symbols_that_no_list_has_are_told_by_their_names(name: str, is_unlisted: bool) -> None:
    policy = Policy.load()
    assert policy.torch_symbols.fullmatch(name) or policy.toolkit_symbols["rocm"].fullmatch(name)
    assert bool(policy.unlisted_symbols["rocm"].fullmatch(name)) is is_unlisted
