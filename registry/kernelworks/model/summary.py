"""What a loaded kernel is, by the names that the `kernels` package gives its facts."""

from __future__ import annotations

from dataclasses import dataclass

from kernelworks.model.variant import Variant

__all__ = ["BackendSummary", "Summary"]


@dataclass(frozen=True)
class BackendSummary:
    """`cuda`, ..., and what its device code is for: `9.0`, `9.0+PTX`, `gfx942`."""

    type: str
    archs: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """The facts of one variant.

    Attributes:
        id: Unique per build; the namespace of its operators.
        name: Of the kernel.
        version: Of its interface, or None for a folder that does not tell.
        python_depends: Python packages that it imports.
        backend: What it runs on.
    """

    id: str
    name: str
    version: int | None
    python_depends: tuple[str, ...]
    backend: BackendSummary

    @classmethod
    def of(cls, variant: Variant, subject: str, version: int | None) -> Summary:
        """The summary of `variant`, which came from `subject`, a repository id or a folder."""
        name = variant.package.replace("_", "-") if variant.wheel.path else subject.rstrip("/").rpartition("/")[2]
        backend = BackendSummary(variant.backend.kind, tuple(variant.backend.archs.spelled()))
        return cls(variant.id, name, version, variant.python_depends, backend)
