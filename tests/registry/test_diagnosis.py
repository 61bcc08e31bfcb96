from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kernelworks.backends.spec import HostBackend
from kernelworks.diagnosis import problems, suits
from kernelworks.host import HostEnv, Libc

CPU = HostBackend("cpu")
CUDA = HostBackend("cuda", (13, 2), ("9.0",), (13, 2))


def test_what_would_load_is_named_the_best_first_for_each_backend(host: HostEnv) -> None:
    here = dataclasses.replace(host, torch="2.13.0+cu132", backends=(CUDA, CPU))
    assert [(suit.name, suit.others, suit.backend, suit.default) for suit in suits(here)] == [
        ("torch213-cxx11-cu132-x86_64-linux", "CUDA 13.1, 13.0", "cuda", True),
        ("torch-stable-abi213-cu132-x86_64-linux", "every older stable ABI; CUDA 13.1, 13.0", "cuda", True),
        ("torch-cuda", "`torch-universal`", "cuda", True),
        ("torch213-cxx11-cpu-x86_64-linux", "", "cpu", False),
        ("torch-stable-abi213-cpu-x86_64-linux", "every older stable ABI", "cpu", False),
        ("torch-cpu", "`torch-universal`", "cpu", False),
    ]


def test_a_backend_without_a_visible_device_is_left_out(host: HostEnv) -> None:
    here = dataclasses.replace(host, backends=(HostBackend("cuda", (13, 2)), CPU, HostBackend("newer")))
    assert {suit.backend for suit in suits(here)} == {"cpu"}


def test_without_torch_only_uncompiled_kernels_and_those_for_tvm_ffi_would_load(host: HostEnv) -> None:
    here = dataclasses.replace(host, torch=None, cxx11=None)
    assert [suit.name for suit in suits(here)] == ["torch-cpu"]
    here = dataclasses.replace(here, tvm_ffi="0.1.12")
    assert [suit.name for suit in suits(here)] == ["tvm-ffi01-cpu-x86_64-linux", "torch-cpu"]


def test_a_usual_process_has_no_problem(host: HostEnv) -> None:
    assert problems(host) == ()
    assert problems(dataclasses.replace(host, backends=(CUDA, CPU))) == ()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"torch": None, "cxx11": None}, ["torch is not installed"]),
        ({"implementation": "pypy"}, ["compiled kernels need CPython, and this is `pypy`"]),
        ({"free_threaded": True}, ["this Python is free-threaded"]),
        ({"libc": Libc("glibc", (2, 17))}, ["most kernels need glibc 2.28, and this system's C library is glibc 2.17"]),
        ({"libc": None}, ["most kernels need glibc 2.28, and this system's C library is unknown"]),
        ({"os": "darwin", "libc": None}, []),
        (
            {"backends": (HostBackend("cuda", (13, 0), (), (12, 4)), CPU)},
            ["torch is built with CUDA 13.0, and the driver is for 12.4", "no device is visible"],
        ),
        (
            {"backends": (HostBackend("cuda", (13, 0)), CPU)},
            ["torch is built with CUDA 13.0, and the driver cannot be found", "no device is visible"],
        ),
        ({"backends": (HostBackend("rocm", (7, 2)), CPU)}, ["torch is built for ROCm, and no device is visible"]),
        ({"backends": (HostBackend("newer", (1, 0)),)}, []),
    ],
)
def test_each_problem_is_told(host: HostEnv, facts: dict[str, Any], words: list[str]) -> None:
    found = problems(dataclasses.replace(host, **facts))
    assert len(found) == len(words)
    for problem, text in zip(found, words, strict=True):
        assert text in problem.text
