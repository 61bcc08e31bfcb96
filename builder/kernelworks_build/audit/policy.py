"""The policy `policy.toml` as a frozen dataclass, and the answers that depend on the claims."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kernelworks.model.torch_symbols import symbol_pattern
from kernelworks_build.claims import Claims
from kernelworks_build.toml import read_toml

__all__ = ["LibraryGrant", "Policy", "VersionNumber"]

VersionNumber = tuple[int, ...]


@dataclass(frozen=True)
class LibraryGrant:
    """Libraries that may be needed where the claims meet `conditions`: (fact, values that it may have).

    `names` and `versions` may hold `{major}`, the major version of the claimed toolkit.
    """

    conditions: tuple[tuple[str, frozenset[str]], ...]
    names: tuple[str, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True)
class Policy:
    """What a wheel may ask of the machine that loads it.

    Attributes:
        name: Platform tag without the CPU.
        caps: Newest version of each family: `GLIBC` -> (2, 28).
        grants: Libraries that may be needed.
        never_vendored: Shell patterns of file names.
        cxx_runtime_symbols: Names that libstdc++ brings with a version.
        openmp_symbols: Names of the OpenMP runtime that torch brings.
        python_symbols: Names that the interpreter brings.
        tvm_ffi_symbols: Names of the C interface of tvm-ffi.
        torch_symbols: Names that are torch's, whether a release has them or not; the loader looks for the same.
        toolkit_symbols: Backend -> names of its toolkit's libraries that its builds of torch bring.
        listed_toolkits: The backends whose toolkit has a list of what these export.
        unlisted_symbols: Backend -> those names of torch's and of the toolkit's that the lists say nothing of.
        unversioned: Weak references without a version that nobody need define.
    """

    name: str
    caps: Mapping[str, VersionNumber]
    grants: tuple[LibraryGrant, ...]
    never_vendored: tuple[str, ...]
    cxx_runtime_symbols: re.Pattern[str]
    openmp_symbols: re.Pattern[str]
    python_symbols: re.Pattern[str]
    tvm_ffi_symbols: re.Pattern[str]
    torch_symbols: re.Pattern[str]
    toolkit_symbols: Mapping[str, re.Pattern[str]]
    listed_toolkits: frozenset[str]
    unlisted_symbols: Mapping[str, re.Pattern[str]]
    unversioned: frozenset[str]

    @classmethod
    @cache
    def load(cls) -> Policy:
        """The policy that is shipped with the builder."""
        document = read_toml(files("kernelworks_build.audit").joinpath("policy.toml"))
        symbols = document["symbols"]
        return cls(
            document["name"],
            {family: tuple(map(int, text.split("."))) for family, text in document["versions"].items()},
            tuple(_grant(row) for row in document["libraries"]),
            tuple(document["vendored"]["never"]),
            re.compile(symbols["cxx-runtime"]),
            re.compile(symbols["openmp"]),
            re.compile(symbols["python"]),
            re.compile(symbols["tvm-ffi"]),
            symbol_pattern(),
            {backend: re.compile(pattern) for backend, pattern in symbols["toolkit"].items()},
            frozenset(symbols["listed"]),
            {backend: re.compile("|".join(patterns)) for backend, patterns in symbols["unlisted"].items()},
            frozenset(symbols["unversioned"]),
        )

    def libraries(self, claims: Claims) -> dict[str, frozenset[str]]:
        """Every library that a variant with `claims` may need, with the versions that only it defines."""
        facts = {
            "cpu": claims.platform.cpu,
            "backend": claims.backend.kind,
            "framework": claims.framework.kind,
            "python": claims.python_abi.kind,
        }
        major = claims.backend.version[0] if claims.backend.version else ""
        return {
            name.format(major=major): frozenset(version.format(major=major) for version in grant.versions)
            for grant in self.grants
            if all(facts[fact] in values for fact, values in grant.conditions)
            for name in grant.names
        }


def _grant(row: dict[str, Any]) -> LibraryGrant:
    conditions = {key: frozenset(value) for key, value in row.items() if key not in {"names", "versions"}}
    return LibraryGrant(tuple(conditions.items()), tuple(row["names"]), tuple(row.get("versions", ())))
