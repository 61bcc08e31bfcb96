"""The audit: proves that the files of a variant are what its claims say.

Facts first, then one small rule per file. It never repairs: what breaks a rule is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from kernelworks.model.variant_name import format_version
from kernelworks_build.audit.facts import read_folder
from kernelworks_build.audit.policy import Policy
from kernelworks_build.audit.report import Report, RuleResult
from kernelworks_build.audit.rule import Case
from kernelworks_build.audit.rules import RULES
from kernelworks_build.claims import Claims
from kernelworks_build.registrations import read_registrations
from kernelworks_build.toolchain.lock import torch_lock

__all__ = ["Report", "audit"]


def audit(
    claims: Claims, folder: Path, symbols: Callable[[str], AbstractSet[str]], sources: Path | None = None
) -> Report:
    """What every rule says of the package files in `folder`.

    Args:
        claims: What the variant was asked to be.
        folder: Its files, nothing else.
        symbols: What the libraries of a lock export; called once for each claimed torch (`torch-2.14.1`), and for the
            toolkit (`rocm-7.2`) where torch brings its libraries.
        sources: Folder of the sources that it was made of, where they are at hand; else its own files are read alone.
    """
    facts = read_folder(folder)
    torch = {release: symbols(torch_lock(release)) for release in claims.torch_releases}
    toolkit = frozenset[str]().union(*map(symbols, _listed_toolkits(claims)))
    case = Case(facts, claims, Policy.load(), torch, toolkit, read_registrations(sources or folder))
    return Report(
        claims.name,
        tuple(RuleResult.of(rule, tuple(rule.check(case))) for rule in RULES),
        facts.libraries,
        tuple(sorted({name for elf in facts.elfs for name in case.imports(elf).torch})),
        facts.device_archs,
        facts.glibc,
    )


def _listed_toolkits(claims: Claims) -> Iterator[str]:
    """The lock of the claimed toolkit, where torch brings its libraries and a list of them lies beside it."""
    kind, version = claims.backend.kind, claims.backend.version
    if version and claims.torch_releases and kind in Policy.load().listed_toolkits:
        yield f"{kind}-{format_version(version)}"
