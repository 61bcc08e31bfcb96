"""What a kernel is before it is loaded and afterwards: its origin, how it is loaded, the name of its module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernelworks.model.beside import BESIDE
from kernelworks.model.digest import tree_digest
from kernelworks.model.summary import Summary
from kernelworks.model.variant import ID_PATTERN, Variant

__all__ = ["NAMESPACE", "NAME_PATTERN", "LoadedKernel", "Origin", "Plan", "RepoInfo", "module_name"]

NAMESPACE = "kernelworks.loaded"
"""The package that the modules of kernels are in."""
_DIGEST_LENGTH = 32
"""Hex digits: 128 bits, for which nobody finds a second kernel."""
NAME_PATTERN = rf"{ID_PATTERN}_[0-9a-f]{{{_DIGEST_LENGTH}}}"
"""The name of a kernel's module in there."""


@dataclass(frozen=True)
class Origin:
    """Where a kernel came from: repository id or folder, version, commit, registry; None where there is none."""

    subject: str
    version: int | None
    commit: str | None
    registry: str | None = None


@dataclass(frozen=True)
class RepoInfo:
    """The repository of a kernel, and the commit that it was loaded from."""

    repo_id: str
    revision: str


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel that this process has loaded; `dependencies` are the kernels that it uses, by repository id."""

    origin: Origin
    variant: Variant
    folder: Path
    module: ModuleType
    dependencies: Mapping[str, ModuleType]

    @property
    def metadata(self) -> Summary:
        """Its facts, as programs for the `kernels` package read them."""
        return Summary.of(self.variant, self.origin.subject, self.origin.version)

    @property
    def repo_info(self) -> RepoInfo | None:
        """Its repository, or None for one from a folder."""
        if self.origin.registry is None or self.origin.commit is None:
            return None
        return RepoInfo(self.origin.subject, self.origin.commit)


@dataclass(frozen=True)
class Plan:
    """How a kernel is loaded that is not loaded yet.

    Attributes:
        variant: What to load.
        origin: Where it comes from.
        prepare: Returns the folder with the verified files.
        dependencies: Loads what it depends on; repository id -> module.
    """

    variant: Variant
    origin: Origin
    prepare: Callable[[], Path]
    dependencies: Callable[[], Mapping[str, ModuleType]]


def module_name(variant: Variant) -> str:
    """The full name of the module of `variant`."""
    digest = tree_digest(entry for entry in variant.files if entry.path not in BESIDE)
    return f"{NAMESPACE}.{variant.id}_{digest[:_DIGEST_LENGTH]}"
