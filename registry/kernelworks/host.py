"""The only detector: what this process is, as facts."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelworks.backends import registered
from kernelworks.backends.spec import Backend, HostBackend
from kernelworks.errors import HostError
from kernelworks.model.decode import Node
from kernelworks.model.variant import ARCH_PATTERN, CPU_FEATURE_PATTERN, DeviceArchs
from kernelworks.model.variant_name import Version2, format_version, parse_version

__all__ = ["HostEnv", "Libc", "describe", "detect"]

_VERSION = "[0-9]{1,4}[.][0-9]{1,4}"
_RELEASE = f"{_VERSION}[0-9A-Za-z.+_-]{{0,64}}"
_WORD = "[a-z][a-z0-9_]{0,31}"
_CPU_INFO = Path("/proc/cpuinfo")
_CPUS = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Libc:
    """The C library: name (`glibc`, ...) and (major, minor)."""

    name: str
    version: Version2

    def __str__(self) -> str:
        return f"{self.name} {format_version(self.version)}"


@dataclass(frozen=True)
class HostEnv:
    """One process, as far as it decides which variant loads.

    Attributes:
        python: (major, minor) of the running Python.
        implementation: `cpython`, `pypy`, ...
        free_threaded: Whether this Python is built without the GIL.
        torch: torch's own version text (`2.13.0+cu130`), or None where torch is not installed.
        cxx11: Whether torch uses the C++11 string ABI, or None without torch.
        backends: What torch is built for, the default first.
        cpu: `x86_64`, `aarch64`, ...
        os: `linux`, `darwin`, `windows`.
        libc: The C library where it tells its name and version.
        cpu_features: Flags of the CPU as the Linux kernel names them, sorted; empty where the system tells none.
        tvm_ffi: tvm-ffi's own version text, or None where it is not installed.
    """

    python: Version2
    implementation: str
    free_threaded: bool
    torch: str | None
    cxx11: bool | None
    backends: tuple[HostBackend, ...]
    cpu: str
    os: str
    libc: Libc | None
    cpu_features: tuple[str, ...] = ()
    tvm_ffi: str | None = None

    @property
    def default_backend(self) -> str:
        """The backend that is taken where the caller names none."""
        return self.backends[0].name

    def to_json(self) -> dict[str, Any]:
        return {
            "python": format_version(self.python),
            "implementation": self.implementation,
            "free-threaded": self.free_threaded,
            "torch": self.torch,
            "cxx11-abi": self.cxx11,
            "backends": [backend.to_json() for backend in self.backends],
            "cpu": self.cpu,
            "os": self.os,
            "libc": str(self.libc) if self.libc else None,
            "cpu-features": list(self.cpu_features),
            "tvm-ffi": self.tvm_ffi,
        }

    @classmethod
    def from_json(cls, node: Node) -> HostEnv:
        """The process that `node` describes as `to_json` does; every fault names its key path."""
        torch, cxx11, libc, features = (node.opt(key) for key in ("torch", "cxx11-abi", "libc", "cpu-features"))
        tvm_ffi = node.opt("tvm-ffi")
        backends = node.get("backends")
        found = backends.items(_backend)
        if not found:
            raise backends.fault("names no backend, and every process has one")
        return cls(
            python=_version(node.get("python")),
            implementation=node.get("implementation").text(pattern=_WORD),
            free_threaded=node.get("free-threaded").flag(),
            torch=torch.text(pattern=_RELEASE) if torch else None,
            cxx11=cxx11.flag() if cxx11 else None,
            backends=found,
            cpu=node.get("cpu").text(pattern=_WORD),
            os=node.get("os").text(pattern=_WORD),
            libc=_libc_of(libc) if libc else None,
            cpu_features=features.items(lambda one: one.text(pattern=CPU_FEATURE_PATTERN)) if features else (),
            tvm_ffi=tvm_ffi.text(pattern=_RELEASE) if tvm_ffi else None,
        )


def _version(node: Node) -> Version2:
    return parse_version(node.text(pattern=_VERSION))


def _backend(node: Node) -> HostBackend:
    name = node.get("name").text(pattern=_WORD)
    version, driver = (_version(found) if (found := node.opt(key)) else None for key in ("version", "driver"))
    spec = registered().get(name)
    return HostBackend(name, version, node.get("devices").items(lambda device: _device(device, spec)), driver)


def _device(node: Node, spec: Backend | None) -> str:
    arch = node.text(pattern=ARCH_PATTERN)
    if spec and spec.runs:
        try:
            spec.runs(DeviceArchs(), arch)
        except ValueError as error:
            raise node.fault(f"is `{arch}`, which no {spec.label} device has") from error
    return arch


def _libc_of(node: Node) -> Libc:
    name, _, version = node.text(pattern=f"{_WORD} {_VERSION}").partition(" ")
    return Libc(name, parse_version(version))


def detect() -> HostEnv:
    """The facts of this process. Imports torch where it is installed, and asks it for the visible devices.

    Raises:
        HostError: torch is installed and cannot be imported.
    """
    return describe(_torch())


def describe(torch: Any) -> HostEnv:
    """The facts of this process as far as they depend on `torch`, the module, or on no torch where it is None."""
    found = (backend.detect(torch) for backend in registered().values())
    machine = platform.machine().lower()
    return HostEnv(
        python=sys.version_info[:2],
        implementation=sys.implementation.name,
        free_threaded="free-threading build" in sys.version,
        torch=torch and str(torch.__version__),
        cxx11=torch and bool(torch.compiled_with_cxx11_abi()),
        backends=tuple(backend for backend in found if backend),
        cpu=_CPUS.get(machine, machine),
        os=platform.system().lower(),
        libc=_libc(),
        cpu_features=_cpu_features(),
        tvm_ffi=_tvm_ffi(),
    )


def _torch() -> Any:
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        return None
    try:
        return importlib.import_module("torch")
    except Exception as error:
        raise HostError(
            f"torch is installed, but importing it failed: {type(error).__name__}: {error}",
            hint='repair it, so that `python -c "import torch"` works',
        ) from error


def _tvm_ffi() -> str | None:
    """What its package says: importing it takes seconds, and few kernels need it."""
    if importlib.util.find_spec("tvm_ffi") is None:
        return None
    from importlib import metadata  # noqa: PLC0415  # slow to import, and few machines have tvm-ffi

    with suppress(metadata.PackageNotFoundError):
        return metadata.version("apache-tvm-ffi")
    return None


def _cpu_features() -> tuple[str, ...]:
    """Of the first CPU: the file has one paragraph for each, and is made while it is read."""
    with suppress(OSError), _CPU_INFO.open() as lines:
        for line in lines:
            key, _, flags = line.partition(":")
            if key.strip() in {"flags", "Features"}:  # x86-64, aarch64
                return tuple(sorted(set(flags.split())))
    return ()


def _libc() -> Libc | None:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return Libc(name, parse_version(version))
    except (AttributeError, OSError, ValueError):  # Windows has no confstr, other C libraries no such name
        return None
