"""Detection on the real machine with the real torch; everything else gets its facts handed in."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from typing import Any

import pytest

from kernelworks.errors import HostError
from kernelworks.host import detect

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
    assert host["backends"][-1] == {"name": "cpu", "version": None, "devices": []}
    assert host["cxx11-abi"] is True


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
