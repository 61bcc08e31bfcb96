"""The support matrix `matrix.toml` as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from kernelworks.model.variant import Platform
from kernelworks.model.variant_name import Version2, parse_version
from kernelworks_build.toml import read_toml

__all__ = ["BackendRow", "Matrix", "Toolkit", "TorchRow"]


@dataclass(frozen=True)
class TorchRow:
    """A torch release: full version text, lock file, C++ standard of its headers."""

    release: str
    lock: str
    std: int

    @property
    def minor(self) -> Version2:
        return parse_version(self.release)


@dataclass(frozen=True)
class Toolkit:
    """A toolkit version of a backend: its lock and the capabilities that it is built for by default."""

    version: Version2 | None
    lock: str | None
    archs: tuple[str, ...]


@dataclass(frozen=True)
class BackendRow:
    """How the sources of one backend are compiled; flags and paths are those inside the sandbox.

    Attributes:
        unit_memory: Peak bytes of one translation unit, by kind of torch ABI: `full`, `stable`.
        device_suffixes: File suffixes that go to the device compiler.
        arch_flags: Templates of the device compiler's flag for one arch, by kind of code (`sass`, `ptx`).
        unit_flags: Templates of its flags that differ between units.
        mount: Where the toolkit's tree is mounted.
    """

    name: str
    toolkits: tuple[Toolkit, ...]
    defines: tuple[str, ...]
    torch_libraries: tuple[str, ...]
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


@dataclass(frozen=True)
class Matrix:
    """Everything that can be built here."""

    platform: Platform
    wheel_tag: str
    abi3: Version2
    stable_abi_since: Version2
    torch: tuple[TorchRow, ...]
    backends: Mapping[str, BackendRow]

    def with_torch(self, releases: Iterable[str]) -> Matrix:
        """The matrix with those of `releases` that are new to it, built like its newest one."""
        known = {row.release for row in self.torch}
        std = max(self.torch, key=lambda row: row.minor).std
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
            stable_abi_since=parse_version(data["stable-abi"]["since"]),
            torch=tuple(TorchRow(row["release"], row["lock"], row["std"]) for row in data["torch"]),
            backends={name: _backend(name, row) for name, row in data["backend"].items()},
        )


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
            )
            for toolkit in row["toolkit"]
        ),
        defines=strings("defines"),
        torch_libraries=strings("torch-libraries"),
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
    )
