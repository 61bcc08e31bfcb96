from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kernelworks.backends.spec import HostBackend
from kernelworks.compat import Accepted, Rejected, judge
from kernelworks.host import HostEnv, Libc
from kernelworks.model.cpu_features import levels_of, single_flags
from kernelworks.model.variant import BackendFacts, DeviceArchs, FrameworkFacts, Platform, PythonAbi, Variant

CUDA = BackendFacts("cuda", (13, 0), DeviceArchs(("8.0", "9.0"), ("9.0",)))
FREE_THREADED: dict[str, Any] = {"free_threaded": True, "python": (3, 13)}
V4_WITHOUT_512VL = tuple(sorted(single_flags(["x86-64-v4"]) - {"avx512vl"}))
GPU = (HostBackend("cuda", (13, 0), ("9.0",)), HostBackend("cpu"))


def reasons(variant: Variant, host: HostEnv, backend: str | None = None) -> list[str]:
    verdict = judge(variant, host, backend)
    return [reason.text for reason in verdict.reasons] if isinstance(verdict, Rejected) else []


def test_a_variant_that_needs_what_is_there_is_accepted(variant: Variant, host: HostEnv) -> None:
    assert isinstance(judge(variant, host), Accepted)


def test_all_reasons_are_told_not_the_first(variant: Variant, host: HostEnv) -> None:
    wrong = dataclasses.replace(
        variant,
        framework=FrameworkFacts("torch", (2, 12), cxx11=False),
        backend=CUDA,
        python_abi=PythonAbi("exact", (3, 8)),
        platform=Platform("aarch64", "darwin", (2, 99)),
    )
    python = ".".join(map(str, host.python))
    assert reasons(wrong, host) == [
        "needs the operating system `darwin`, and this is `linux`",
        "needs a `aarch64` CPU, and this is `x86_64`",
        "needs glibc 2.99 or newer, and this system's C library is glibc 2.36",
        f"needs exactly Python 3.8, and this is {python}",
        "needs exactly torch 2.12, and this is torch 2.13.0+cpu",
        "needs a torch with the older string ABI, and this one has the C++11 one",
        "is for backend `cuda`, and `cpu` is wanted",
        "needs a torch that is built for CUDA",
    ]


@pytest.mark.parametrize(
    ("facts", "host_facts", "expected"),
    [
        ({"framework": FrameworkFacts("torch", (2, 13))}, {"torch": "2.13.0a0+nv25.1"}, ""),
        ({"framework": FrameworkFacts("torch", (2, 1))}, {"torch": "2.13.0"}, "needs exactly torch 2.1,"),
        ({}, {"torch": "2.11.0"}, ""),
        ({}, {"torch": "2.9.1"}, "needs torch 2.11 or newer, and this is torch 2.9.1"),
        ({}, {"torch": "3.0.0"}, ""),
        ({}, {"torch": None, "cxx11": None}, "needs torch 2.11 or newer, and torch is not installed"),
        ({"framework": FrameworkFacts("none", None)}, {"torch": None}, ""),
        ({"framework": FrameworkFacts("tvm-ffi", (0, 1))}, {}, "needs tvm-ffi 0.1, and it is not installed"),
        (
            {"framework": FrameworkFacts("tvm-ffi", (0, 1))},
            {"tvm_ffi": "0.2.0"},
            "needs exactly tvm-ffi 0.1, and this is tvm-ffi 0.2.0",
        ),
        ({"framework": FrameworkFacts("tvm-ffi", (0, 1))}, {"tvm_ffi": "0.1.12", "torch": None}, ""),
        ({}, {"python": (3, 8)}, "needs Python 3.9 or newer, and this is 3.8"),
        ({"python_abi": PythonAbi("exact", (3, 12))}, {"python": (3, 12)}, ""),
        ({}, {"implementation": "pypy"}, "needs CPython, and this is `pypy`"),
        ({}, {"free_threaded": True}, "needs a Python with the GIL"),
        ({"python_abi": PythonAbi("none", None)}, {"free_threaded": True, "implementation": "pypy"}, ""),
        ({}, {"libc": None}, "needs glibc 2.28 or newer, and this system's C library is not glibc"),
        (
            {},
            {"libc": Libc("musl", (2, 99))},
            "needs glibc 2.28 or newer, and this system's C library is musl 2.99",
        ),
        ({"platform": Platform(None, None, None)}, {"cpu": "riscv64", "os": "darwin", "libc": None}, ""),
        (
            {"backend": BackendFacts("toy", None)},
            {},
            "is for backend `toy`, which this version of kernelworks",
        ),
        ({"backend": CUDA}, {"backends": GPU}, ""),
        ({}, {"backends": GPU}, "is for backend `cpu`, and `cuda` is wanted"),
        (
            {"backend": CUDA},
            {"backends": (HostBackend("cuda", (13, 0), ()), HostBackend("cpu"))},
            "needs a CUDA device, and none is visible",
        ),
        (
            {"backend": CUDA},
            {"backends": (HostBackend("cuda", (12, 8), ("9.0",)), HostBackend("cpu"))},
            "is built with CUDA 13.0, and torch with 12.8",
        ),
        (
            {"backend": CUDA},
            {"backends": (HostBackend("cuda", (13, 0), ("7.5", "9.0")), HostBackend("cpu"))},
            "has device code for 8.0, 9.0+PTX, which a visible device of arch 7.5 cannot run",
        ),
        ({"backend": BackendFacts("cuda", (13, 0))}, {"backends": GPU}, ""),
        (
            {"backend": CUDA},
            {"backends": (HostBackend("cuda", (13, 0), ("9.0",), (12, 8)),)},
            "needs a driver for CUDA 13.0 or newer, and this one is for 12.8",
        ),
        ({"backend": CUDA}, {"backends": (HostBackend("cuda", (13, 0), ("9.0",), (13, 0)),)}, ""),
        ({"backend": BackendFacts("universal", None)}, {"backends": GPU}, ""),
        ({"framework": FrameworkFacts("torch", (2, 9))}, {"torch": "2.9.0a0+git145a3a7.nv25.10"}, ""),
        ({"python_abi": PythonAbi("exact", (3, 13), free_threaded=True)}, FREE_THREADED, ""),
        ({"python_abi": PythonAbi("exact", (3, 13))}, FREE_THREADED, "needs a Python with the GIL"),
        (
            {"python_abi": PythonAbi("exact", (3, 13), free_threaded=True)},
            {"python": (3, 13)},
            "needs a free-threaded Python, and this one has the GIL",
        ),
        ({"cpu_features": ("avx2",)}, {"cpu_features": ("avx", "avx2")}, ""),
        ({"cpu_features": ("avx2",)}, {"cpu_features": ("avx",)}, "needs a CPU with `avx2`, and this one lacks avx2"),
        (
            {"cpu_features": ("x86-64-v4",)},
            {"cpu_features": V4_WITHOUT_512VL},
            "needs a CPU with `x86-64-v4`, and this one lacks avx512vl",
        ),
        ({"cpu_features": ("avx2",)}, {}, "needs a CPU with `avx2`, and this system does not tell"),
        (
            {"cpu_features": ("sve",), "platform": Platform("aarch64", "linux", None)},
            {"cpu_features": ("avx",)},
            "needs a `aarch64` CPU",
        ),
    ],
)
def test_each_rule_alone(
    variant: Variant, host: HostEnv, facts: dict[str, Any], host_facts: dict[str, Any], expected: str
) -> None:
    found = reasons(dataclasses.replace(variant, **facts), dataclasses.replace(host, **host_facts))
    assert len(found) == bool(expected)
    assert "".join(found).startswith(expected)


def test_another_backend_than_the_default_is_taken_only_if_told_so(variant: Variant, host: HostEnv) -> None:
    here = dataclasses.replace(host, backends=GPU)
    verdict = judge(variant, here)
    assert isinstance(verdict, Rejected)
    assert [reason.remedy for reason in verdict.reasons] == ['ask for it: `backend="cpu"`']
    assert isinstance(judge(variant, here, "cpu"), Accepted)


def test_every_reason_that_the_caller_can_mend_says_how(variant: Variant, host: HostEnv) -> None:
    old = dataclasses.replace(host, torch="2.9.1", python=(3, 8))
    verdict = judge(variant, old)
    assert isinstance(verdict, Rejected)
    assert [reason.remedy for reason in verdict.reasons] == [
        "use Python 3.9 or newer",
        'install it: `pip install "torch>=2.11"`',
    ]


@pytest.mark.parametrize("count", range(4))
def test_the_levels_of_a_cpu_are_told_from_its_flags(count: int) -> None:
    levels = ("x86-64-v2", "x86-64-v3", "x86-64-v4")[:count]
    assert levels_of(single_flags(levels)) == levels
