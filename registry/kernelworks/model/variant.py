"""The facts of one variant: what a process must be for it to load; they alone decide compatibility."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from kernelworks.model.decode import Node
from kernelworks.model.digest import FileEntry
from kernelworks.model.variant_name import Version2, format_version, parse_version

__all__ = [
    "ARCH_PATTERN",
    "CPU_FEATURE_PATTERN",
    "ID_PATTERN",
    "BackendFacts",
    "DeviceArchs",
    "FrameworkFacts",
    "KernelDependency",
    "Platform",
    "PythonAbi",
    "TorchSymbols",
    "Variant",
]

_VERSION = r"[0-9]{1,4}\.[0-9]{1,4}"
ARCH_PATTERN = r"[0-9]{1,4}\.[0-9][af]?|gfx[0-9a-f]{1,8}(:[a-z]{1,16}[+-]){0,4}"
CPU_FEATURE_PATTERN = r"[a-z0-9][a-z0-9_-]{0,31}"
ID_PATTERN = r"_[a-z][a-z0-9_]{0,126}"


@dataclass(frozen=True)
class FrameworkFacts:
    """The framework ABI.

    Attributes:
        kind: `torch` (exactly this minor), `torch-stable-abi` (this minor or newer), `tvm-ffi` or `none`.
        version: (major, minor); None for `none`.
        cxx11: Whether the C++11 string ABI is used; None where it does not matter (stable ABI, none).
    """

    kind: str
    version: Version2 | None
    cxx11: bool | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "version": format_version(self.version) if self.version else None,
            "cxx11-abi": self.cxx11,
        }

    @classmethod
    def from_json(cls, node: Node) -> FrameworkFacts:
        kind = node.get("kind").choice("torch", "torch-stable-abi", "tvm-ffi", "none")
        cxx11 = node.opt("cxx11-abi")
        version = None if kind == "none" else _version(node.get("version"))
        return cls(kind, version, cxx11.flag() if cxx11 else None)


@dataclass(frozen=True)
class DeviceArchs:
    """Device code really inside the binaries.

    Attributes:
        sass: Architectures with machine code: compute capabilities (`9.0`, `9.0a`) or gfx archs (`gfx942`).
        ptx: Compute capabilities with PTX, which the driver compiles for newer devices.
    """

    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()

    def spelled(self) -> tuple[str, ...]:
        """As the field writes them: `9.0`, and `9.0+PTX` where there is PTX as well or only."""
        return tuple(f"{arch}+PTX" if arch in self.ptx else arch for arch in dict.fromkeys((*self.sass, *self.ptx)))

    def to_json(self) -> dict[str, Any]:
        return {"sass": list(self.sass), "ptx": list(self.ptx)}

    @classmethod
    def from_json(cls, node: Node) -> DeviceArchs:
        return cls(*(node.get(key).items(lambda item: item.text(pattern=ARCH_PATTERN)) for key in ("sass", "ptx")))


@dataclass(frozen=True)
class BackendFacts:
    """The device side: backend name, toolkit (major, minor) or None, and the archs inside."""

    kind: str
    version: Version2 | None
    archs: DeviceArchs = DeviceArchs()

    @property
    def is_universal(self) -> bool:
        """Whether it runs on any backend: there is no device code inside, and none to choose."""
        return self.kind == "universal"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "version": format_version(self.version) if self.version else None,
            "archs": self.archs.to_json(),
        }

    @classmethod
    def from_json(cls, node: Node) -> BackendFacts:
        version = node.opt("version")
        return cls(
            node.get("kind").text(pattern="[a-z][a-z0-9]*"),
            _version(version) if version else None,
            DeviceArchs.from_json(node.get("archs")),
        )


@dataclass(frozen=True)
class PythonAbi:
    """The Python ABI.

    Attributes:
        kind: `none` (no extension module), `abi3` (this CPython or newer) or `exact` (this CPython only).
        version: (major, minor); None for `none`.
        free_threaded: Whether it is that of the build without the GIL, which has no abi3 (PEP 703).
    """

    kind: str
    version: Version2 | None
    free_threaded: bool = False

    def to_json(self) -> dict[str, Any]:
        version = format_version(self.version) if self.version else None
        return {"kind": self.kind, "version": version} | ({"free-threaded": True} if self.free_threaded else {})

    @classmethod
    def from_json(cls, node: Node) -> PythonAbi:
        kind = node.get("kind").choice("none", "abi3", "exact")
        free_threaded = node.opt("free-threaded")
        if free_threaded and free_threaded.flag() and kind != "exact":
            raise free_threaded.fault(f"is true, and `{kind}` says nothing of free-threaded builds")
        version = None if kind == "none" else _version(node.get("version"))
        return cls(kind, version, free_threaded is not None and free_threaded.flag())


@dataclass(frozen=True)
class Platform:
    """CPU (`x86_64`), operating system (`linux`), and the glibc (major, minor) floor or None."""

    cpu: str | None
    os: str | None
    glibc: Version2 | None

    def to_json(self) -> dict[str, Any]:
        return {"cpu": self.cpu, "os": self.os, "glibc": format_version(self.glibc) if self.glibc else None}

    @classmethod
    def from_json(cls, node: Node) -> Platform:
        cpu, os, glibc = node.opt("cpu"), node.opt("os"), node.opt("glibc")
        return cls(
            cpu.text(pattern="[a-z0-9_]+") if cpu else None,
            os.text(pattern="[a-z]+") if os else None,
            _version(glibc) if glibc else None,
        )


@dataclass(frozen=True)
class TorchSymbols:
    """The torch symbols that the binaries import: sorted mangled names."""

    names: tuple[str, ...]

    def to_json(self) -> list[str]:
        return list(self.names)

    @classmethod
    def from_json(cls, node: Node) -> TorchSymbols:
        return cls(node.items(lambda item: item.text(pattern=r"[A-Za-z0-9_.$]{1,8192}")))


@dataclass(frozen=True)
class KernelDependency:
    """Another kernel that this one loads, at either a version or a revision; whoever loads it checks the texts."""

    repo_id: str
    version: int | None = None
    revision: str | None = None

    def to_json(self) -> dict[str, Any]:
        pin = {"version": self.version} if self.revision is None else {"revision": self.revision}
        return {"repo-id": self.repo_id, **pin}

    @classmethod
    def from_json(cls, node: Node) -> KernelDependency:
        version, revision = node.opt("version"), node.opt("revision")
        if (version is None) == (revision is None):
            raise node.fault("needs exactly one of `version` and `revision`")
        return cls(
            node.get("repo-id").text(),
            version.natural() if version else None,
            revision.text() if revision else None,
        )


@dataclass(frozen=True)
class Variant:
    """One build of a kernel.

    Attributes:
        name: The handle, formatted by `variant_name`; the folder below `build/`.
        id: Module name and op namespace, unique per build: `_silu_and_mul_cuda_1a2b3c4d`.
        libraries: `DT_NEEDED` entries of all binaries, sorted.
        torch_symbols: Torch symbols that the binaries import.
        python_depends: Python packages that the kernel imports, as its manifest names them.
        wheel: The wheel, path relative to the revision's root.
        package: The package folder inside the wheel that holds exactly `files`.
        files: Every file of the package, path relative to `package` (and to `build/<name>/`).
        lock: SHA-256 of the toolchain lock that it was built from.
        hermetic: Whether it was built in a sandbox that isolates it from the host.
        kernel_depends: Kernels that it loads while it is imported.
        cpu_features: What its code needs beyond the baseline of the CPU: flags as the Linux kernel names them
            (`avx512f`) or levels (`x86-64-v3`).
    """

    name: str
    id: str
    framework: FrameworkFacts
    backend: BackendFacts
    python_abi: PythonAbi
    platform: Platform
    libraries: tuple[str, ...]
    torch_symbols: TorchSymbols
    python_depends: tuple[str, ...]
    wheel: FileEntry
    package: str
    files: tuple[FileEntry, ...]
    lock: str
    hermetic: bool
    kernel_depends: tuple[KernelDependency, ...] = ()
    cpu_features: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": self.id,
            "framework": self.framework.to_json(),
            "backend": self.backend.to_json(),
            "python-abi": self.python_abi.to_json(),
            "platform": self.platform.to_json(),
            "libraries": list(self.libraries),
            "torch-symbols": self.torch_symbols.to_json(),
            "python-depends": list(self.python_depends),
            "wheel": self.wheel.to_json(),
            "package": self.package,
            "files": [entry.to_json() for entry in self.files],
            "lock": self.lock,
            "hermetic": self.hermetic,
            **self._newer_facts(),
        }

    def _newer_facts(self) -> dict[str, Any]:
        """Written where there are any: an index from before they were known keeps its bytes, and so its digest."""
        facts = {
            "kernel-depends": [item.to_json() for item in self.kernel_depends],
            "cpu-features": list(self.cpu_features),
        }
        return {key: value for key, value in facts.items() if value}

    @classmethod
    def from_json(cls, node: Node) -> Variant:
        """The variant that `node` describes; every fault names its key path."""
        kernel_depends, cpu_features = node.opt("kernel-depends"), node.opt("cpu-features")
        return cls(
            name=node.get("name").text(pattern="[a-z0-9][a-z0-9_-]{1,126}"),
            id=node.get("id").text(pattern=ID_PATTERN),
            framework=FrameworkFacts.from_json(node.get("framework")),
            backend=BackendFacts.from_json(node.get("backend")),
            python_abi=PythonAbi.from_json(node.get("python-abi")),
            platform=Platform.from_json(node.get("platform")),
            libraries=node.get("libraries").items(Node.text),
            torch_symbols=TorchSymbols.from_json(node.get("torch-symbols")),
            python_depends=node.get("python-depends").items(Node.text),
            wheel=_file_entry(node.get("wheel")),
            package=node.get("package").text(pattern="[a-z][a-z0-9_]*"),
            files=_files(node.get("files")),
            lock=node.get("lock").sha256(),
            hermetic=node.get("hermetic").flag(),
            kernel_depends=kernel_depends.items(KernelDependency.from_json) if kernel_depends else (),
            cpu_features=cpu_features.items(_cpu_feature) if cpu_features else (),
        )


def _cpu_feature(node: Node) -> str:
    return node.text(pattern=CPU_FEATURE_PATTERN)


def _version(node: Node) -> Version2:
    return parse_version(node.text(pattern=_VERSION))


def _files(node: Node) -> tuple[FileEntry, ...]:
    entries = node.items(_file_entry)
    paths = {entry.path.casefold() for entry in entries}
    if len(paths) != len(entries):
        raise node.fault("lists a path twice (names that differ only in case count as one)")
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    if both := sorted(paths & folders):
        raise node.fault(f"lists `{both[0]}` as a file and as a folder")
    return tuple(sorted(entries))


def _file_entry(node: Node) -> FileEntry:
    return FileEntry(node.get("path").relative_path(), node.get("size").natural(), node.get("sha256").sha256())
