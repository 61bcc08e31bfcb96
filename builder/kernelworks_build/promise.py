"""The variant that a plan or a claim promises, as far as the loader decides by it."""

from __future__ import annotations

from typing import Protocol

from kernelworks.model.digest import FileEntry
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi, TorchSymbols, Variant

__all__ = ["Promise", "promised"]


class Promise(Protocol):
    """`PlannedVariant` and `Claims` are some."""

    @property
    def name(self) -> str: ...
    @property
    def framework(self) -> FrameworkFacts: ...
    @property
    def backend(self) -> BackendFacts: ...
    @property
    def python_abi(self) -> PythonAbi: ...
    @property
    def platform(self) -> Platform: ...


def promised(promise: Promise) -> Variant:
    """The variant, without what only its bytes tell."""
    return Variant(
        name=promise.name,
        id="",
        framework=promise.framework,
        backend=promise.backend,
        python_abi=promise.python_abi,
        platform=promise.platform,
        libraries=(),
        torch_symbols=TorchSymbols(()),
        python_depends=(),
        wheel=FileEntry("", 0, ""),
        package="",
        files=(),
        lock="",
        hermetic=True,
    )
