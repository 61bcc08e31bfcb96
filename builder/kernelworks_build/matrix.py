"""The support matrix `matrix.toml` as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from kernelworks.model.variant import Platform
from kernelworks.model.variant_name import Version2, parse_version
from kernelworks_build.archs import arch_order
from kernelworks_build.toml import read_toml

__all__ = ["BackendRow", "Framework", "Library", "Matrix", "Toolkit", "TorchRow"]


@dataclass(frozen=True)
class TorchRow:
    """A torch release.

    Attributes:
        release: Full version text.
        lock: Name of its lock.
        std: C++ standard of its headers.
        full_abi: Whether variants are built for its full ABI; else it serves the stable one.
        builds: Backend -> the toolkits with which it is published; nothing is known of a backend that is not there.
    """

    release: str
    lock: str
    std: int
    full_abi: bool = True
    builds: Mapping[str, tuple[Version2, ...]] = field(default_factory=dict)

    @property
    def minor(self) -> Version2:
        return parse_version(self.release)


@dataclass(frozen=True)
class Toolkit:
    """A toolkit version of a backend.

    Attributes:
        lock: Name of its lock.
        archs: Device architectures that are built for by default.
        other_archs: Those that it has code for besides.
    """

    version: Version2 | None
    lock: str | None
    archs: tuple[str, ...]
    other_archs: tuple[str, ...] = ()

    @property
    def supported(self) -> tuple[str, ...]:
        """All device architectures that it has code for, from old to new."""
        return tuple(sorted((*self.archs, *self.other_archs), key=arch_order))


@dataclass(frozen=True)
class Framework:
    """What is compiled against a framework; paths are those inside the sandbox.

    Attributes:
        mount: Where its tree is mounted.
        include: Folders with headers.
        libraries: What is linked, from `lib` of the tree.
    """

    name: str
    mount: str
    include: tuple[str, ...]
    libraries: tuple[str, ...]


@dataclass(frozen=True)
class Library:
    """A C++ library that `depends` may name.

    Attributes:
        lock: Its headers; None where nobody provides them.
        include: Folders with them, relative to the tree.
        missing: Why nobody does.
    """

    lock: str | None
    include: tuple[str, ...] = ()
    missing: str = ""

    @property
    def mount(self) -> str:
        """Where its tree is mounted."""
        return f"/opt/{self.lock}"


@dataclass(frozen=True)
class BackendRow:
    """How the sources of one backend are compiled; flags and paths are those inside the sandbox.

    Attributes:
        unit_memory: Peak bytes of one translation unit, by kind of torch ABI: `full`, `stable`.
        framework_libraries: Framework -> the libraries of it that are linked besides those of any backend.
        not_for: Framework -> why nothing is built against it.
        framework_locks: Framework -> template of the lock of its tree for this backend; without one, as for any other.
        translated_suffixes: File suffixes of device sources in CUDA: a variant that has one is translated.
        device_suffixes: File suffixes that go to the device compiler.
        arch_flags: Templates of the device compiler's flag for one arch, by kind of code (`sass`, `ptx`).
        unit_flags: Templates of its flags that differ between units: `{keep}` is a folder, `{unit}` an identifier.
        mount: Where the toolkit's tree is mounted.
        editor_flags: Flags by which clang reads its device code.
    """

    name: str
    toolkits: tuple[Toolkit, ...]
    defines: tuple[str, ...]
    framework_libraries: Mapping[str, tuple[str, ...]]
    not_for: Mapping[str, str]
    framework_locks: Mapping[str, str]
    translated_suffixes: tuple[str, ...]
    libraries: tuple[str, ...]
    library_dirs: tuple[str, ...]
    include_dirs: tuple[str, ...]
    device_suffixes: tuple[str, ...]
    device_compiler: str | None
    device_flags: tuple[str, ...]
    arch_flags: Mapping[str, str]
    unit_flags: tuple[str, ...]
    mount: str | None
    unit_memory: Mapping[str, int]
    editor_flags: tuple[str, ...]

    def memory_against(self, framework: str) -> int:
        """Peak bytes of one translation unit that is compiled against a framework of that kind."""
        return self.unit_memory["stable" if framework == "torch-stable-abi" else "full"]

    def framework_lock(self, framework: str, release: TorchRow) -> str:
        """The lock of the tree of `release` of `framework` that is compiled against."""
        template = self.framework_locks.get(framework)
        return template.format(release=release.release) if template else release.lock

    @property
    def archs(self) -> tuple[str, ...]:
        """All device architectures that one of its toolkits has code for, from old to new."""
        return tuple(sorted({arch for toolkit in self.toolkits for arch in toolkit.supported}, key=arch_order))


@dataclass(frozen=True)
class Matrix:
    """Everything that can be built here.

    Attributes:
        abi3: The oldest CPython whose stable ABI is built for.
        abi3_headers: The CPython whose headers are taken for that.
        python: CPython -> the lock of its headers.
        tvm_ffi: The release of tvm-ffi that is built for.
        depends: The C++ libraries that `depends` may name besides torch.
    """

    platform: Platform
    wheel_tag: str
    abi3: Version2
    abi3_headers: Version2
    python: Mapping[Version2, str]
    stable_abi_since: Version2
    torch: tuple[TorchRow, ...]
    tvm_ffi: TorchRow
    frameworks: Mapping[str, Framework]
    backends: Mapping[str, BackendRow]
    depends: Mapping[str, Library]

    @property
    def newest_torch(self) -> TorchRow:
        return max(self.torch, key=lambda row: row.minor)

    def with_torch(self, releases: Iterable[str]) -> Matrix:
        """The matrix with those of `releases` that are new to it, built like its newest one."""
        known, std = {row.release for row in self.torch}, self.newest_torch.std
        new = [TorchRow(release, f"torch-{release}", std) for release in releases if release not in known]
        return replace(self, torch=tuple(sorted((*self.torch, *new), key=lambda row: row.minor)))

    @classmethod
    @cache
    def load(cls) -> Matrix:
        """The matrix that ships with the program."""
        return cls.from_toml(read_toml(files("kernelworks_build") / "matrix.toml"))

    @classmethod
    def from_toml(cls, data: dict[str, Any]) -> Matrix:
        platform = data["platform"]
        return cls(
            platform=Platform(platform["cpu"], platform["os"], parse_version(platform["glibc"])),
            wheel_tag=platform["wheel-tag"],
            abi3=parse_version(data["python"]["abi3"]),
            abi3_headers=parse_version(data["python"]["abi3-headers"]),
            python={parse_version(version): lock for version, lock in data["python"]["locks"].items()},
            stable_abi_since=parse_version(data["stable-abi"]["since"]),
            torch=tuple(map(_torch, data["torch"])),
            tvm_ffi=_torch(data["tvm-ffi"]),
            frameworks={name: _framework(name, row) for name, row in data["framework"].items()},
            backends={name: _backend(name, row) for name, row in data["backend"].items()},
            depends={name: _library(row) for name, row in data["depends"].items()},
        )


def _torch(row: dict[str, Any]) -> TorchRow:
    builds = {backend: tuple(map(parse_version, versions)) for backend, versions in row.get("builds", {}).items()}
    return TorchRow(row["release"], row["lock"], row["std"], row.get("full-abi", True), builds)


def _framework(name: str, row: dict[str, Any]) -> Framework:
    mount = row["mount"]
    return Framework(name, mount, tuple(f"{mount}/{folder}" for folder in row["include"]), tuple(row["libraries"]))


def _library(row: dict[str, Any]) -> Library:
    return Library(row.get("lock"), tuple(row.get("include", ())), row.get("missing", ""))


def _backend(name: str, row: dict[str, Any]) -> BackendRow:
    def strings(key: str) -> tuple[str, ...]:
        return tuple(row.get(key, ()))

    return BackendRow(
        name=name,
        toolkits=tuple(
            Toolkit(
                parse_version(toolkit["version"]) if "version" in toolkit else None,
                toolkit.get("lock"),
                tuple(toolkit.get("archs", ())),
                tuple(toolkit.get("other-archs", ())),
            )
            for toolkit in row["toolkit"]
        ),
        defines=strings("defines"),
        framework_libraries={name: tuple(found) for name, found in row["framework-libraries"].items()},
        not_for=row.get("not-for", {}),
        framework_locks=row.get("framework-locks", {}),
        translated_suffixes=strings("translated-suffixes"),
        libraries=strings("libraries"),
        library_dirs=strings("library-dirs"),
        include_dirs=strings("include-dirs"),
        device_suffixes=strings("device-suffixes"),
        device_compiler=row.get("device-compiler"),
        device_flags=strings("device-flags"),
        arch_flags=row.get("arch-flags", {}),
        unit_flags=strings("unit-flags"),
        mount=row.get("mount"),
        unit_memory=row["unit-memory"],
        editor_flags=strings("editor-flags"),
    )
