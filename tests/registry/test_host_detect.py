"""Detection on the real machine with the real torch; everything else gets its facts handed in."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelworks.errors import HostError
from kernelworks.host import describe, detect

PROGRAM = """
import json, torch, kernelworks
from kernelworks.host import detect
kernel = kernelworks.get_kernel("org/demo")
print(json.dumps([detect().to_json(), kernel.double(torch.ones(2)).tolist()]))
"""


def test_a_kernel_is_loaded_for_the_real_torch(registry: Any, pack: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch, for which kernels are built", exc_type=ImportError)
    del torch
    registry.publish(
        "org/demo", 1, pack({"__init__.py": b"import torch\ndef double(x):\n    return torch.add(x, x)\n"})
    )
    run = [sys.executable, "-c", PROGRAM]
    host, doubled = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    assert doubled == [2.0, 2.0]
    assert host["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert host["cpu"] == platform.machine()
    assert host["os"] == sys.platform
    assert host["libc"].startswith("glibc 2.")
    assert host["backends"][-1] == {"name": "cpu", "version": None, "devices": [], "driver": None}
    assert host["cxx11-abi"] is True


def test_the_features_of_this_cpu_are_those_that_the_kernel_lists() -> None:
    if sys.platform != "linux":
        pytest.skip("needs /proc/cpuinfo, which Linux has")
    flags = describe(None).cpu_features
    listed = Path("/proc/cpuinfo").read_text().split()
    assert set(flags) <= set(listed)
    assert ("fpu" in flags) == ("fpu" in listed)
    assert list(flags) == sorted(set(flags))


def test_a_system_that_does_not_tell_its_cpu_has_no_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelworks.host._CPU_INFO", tmp_path / "none")
    assert describe(None).cpu_features == ()
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nFeatures\t: fp asimd sve\nprocessor\t: 1\nFeatures\t: fp\n")
    monkeypatch.setattr("kernelworks.host._CPU_INFO", tmp_path / "cpuinfo")
    assert describe(None).cpu_features == ("asimd", "fp", "sve")


def test_without_torch_the_cpu_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelworks.host._torch", lambda: None)
    host = detect()
    assert (host.torch, host.cxx11, host.default_backend) == (None, None, "cpu")


def test_a_broken_torch_is_an_error_of_the_host(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("raise OSError('libcudart.so.13: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(HostError, match="importing it failed: OSError: libcudart"):
        detect()
