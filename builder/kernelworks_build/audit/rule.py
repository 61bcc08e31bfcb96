"""What a rule of the audit is: a pure function from a case to findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kernelworks_build.audit.elf import ElfFacts, Symbol
from kernelworks_build.audit.facts import FolderFacts
from kernelworks_build.audit.policy import Policy
from kernelworks_build.claims import Claims
from kernelworks_build.registrations import Registration

__all__ = ["Case", "Finding", "Imports", "Rule", "bad", "good", "unchecked"]


@dataclass(frozen=True)
class Imports:
    """The undefined symbols without a version, by who brings them; every one is in exactly one set, sorted.

    Attributes:
        torch: In the list of a claimed release, or torch's by its name.
        toolkit: In the list of the toolkit's libraries, or theirs by its name, where torch brings them.
        openmp: Of the OpenMP runtime, which comes with torch.
        tvm_ffi: Of tvm-ffi, in a variant of it.
        python: The interpreter's.
        compiler: Weak references that the compiler puts into every shared object.
        unknown: All others, and `std` symbols: those have a version when they are libstdc++'s.
    """

    torch: tuple[str, ...]
    toolkit: tuple[str, ...]
    openmp: tuple[str, ...]
    tvm_ffi: tuple[str, ...]
    python: tuple[str, ...]
    compiler: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """All that a rule may look at.

    Attributes:
        facts: What is in the folder.
        claims: What was asked for.
        policy: What machines bring.
        torch: The exported symbols of every claimed torch release.
        toolkit: Those of the toolkit's libraries, where torch brings them.
        registrations: Where the files, and the sources where they are at hand, register ops.
    """

    facts: FolderFacts
    claims: Claims
    policy: Policy
    torch: Mapping[str, AbstractSet[str]]
    toolkit: AbstractSet[str] = frozenset()
    registrations: tuple[Registration, ...] = ()

    def imports(self, elf: ElfFacts) -> Imports:
        """The undefined symbols of `elf` that no symbol version ties to a library."""
        owners: dict[str, list[str]] = {
            "torch": [],
            "toolkit": [],
            "openmp": [],
            "tvm_ffi": [],
            "python": [],
            "compiler": [],
            "unknown": [],
        }
        for symbol in elf.undefined:
            if symbol.version is None:
                owners[self._owner(symbol)].append(symbol.name)
        return Imports(**{owner: tuple(names) for owner, names in owners.items()})

    def _owner(self, symbol: Symbol) -> str:
        name = symbol.name
        if symbol.binding == "weak" and name in self.policy.unversioned:
            return "compiler"
        if self.policy.python_symbols.fullmatch(name):
            return "python"
        if self.claims.framework.kind == "tvm-ffi" and self.policy.tvm_ffi_symbols.fullmatch(name):
            return "tvm_ffi"
        return self._owner_in_torch(name) if self.torch else "unknown"

    def _owner_in_torch(self, name: str) -> str:
        """The owner of a symbol in a process that has torch."""
        if self.policy.cxx_runtime_symbols.fullmatch(name):
            return "unknown"
        if name in self.toolkit or self._matches(self.policy.toolkit_symbols, name):
            return "toolkit"
        if self.policy.openmp_symbols.fullmatch(name):
            return "openmp"
        listed = any(name in names for names in self.torch.values())
        return "torch" if listed or self.policy.torch_symbols.fullmatch(name) else "unknown"

    def is_unlisted(self, name: str) -> bool:
        """Whether the lists say nothing of `name`, a symbol of torch or of the toolkit."""
        return self._matches(self.policy.unlisted_symbols, name)

    def _matches(self, patterns: Mapping[str, re.Pattern[str]], name: str) -> bool:
        pattern = patterns.get(self.claims.backend.kind)
        return bool(pattern and pattern.fullmatch(name))


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        ok: Whether it keeps the rule; None where nobody here can tell.
        evidence: What was found.
        file: Where, relative to the folder; empty where it is the variant as a whole.
    """

    ok: bool | None
    evidence: str
    file: str = ""


def good(evidence: str, file: str = "") -> Finding:
    """A finding that keeps the rule."""
    return Finding(True, evidence, file)


def bad(evidence: str, file: str = "") -> Finding:
    """A finding that breaks the rule."""
    return Finding(False, evidence, file)


def unchecked(evidence: str, file: str = "") -> Finding:
    """A finding of which nobody here can tell whether it keeps the rule."""
    return Finding(None, evidence, file)


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: Its name in reports, lower-case with hyphens.
        title: What it demands, one sentence.
        check: The findings in a case, good ones as well; none where the rule does not apply.
        absent: Why it does not apply then.
        hint: What to do where it is broken, if that is always the same.
    """

    id: str
    title: str
    check: Callable[[Case], Iterator[Finding]]
    absent: str = "the folder holds no readable binary"
    hint: str = ""
