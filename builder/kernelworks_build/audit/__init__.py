"""The audit: proves that the files of a variant are what its claims say.

Facts first, then one small rule per file. It never repairs: what breaks a rule is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kernelworks_build.audit.facts import read_folder
from kernelworks_build.audit.policy import Policy
from kernelworks_build.audit.report import Report, RuleResult
from kernelworks_build.audit.rule import Case
from kernelworks_build.audit.rules import RULES
from kernelworks_build.claims import Claims
from kernelworks_build.registrations import read_registrations

__all__ = ["Report", "audit"]


def audit(
    claims: Claims, folder: Path, symbols: Callable[[str], frozenset[str]], sources: Path | None = None
) -> Report:
    """What every rule says of the package files in `folder`.

    Args:
        claims: What the variant was asked to be.
        folder: Its files, nothing else.
        symbols: The exported symbols of a torch release, such as `2.14.1`; called once for every claimed one.
        sources: Folder of the sources that it was made of, where they are at hand; else its own files are read alone.
    """
    facts = read_folder(folder)
    exports = {release: symbols(release) for release in claims.torch_releases}
    case = Case(facts, claims, Policy.load(), exports, read_registrations(sources or folder))
    return Report(
        claims.name,
        tuple(RuleResult.of(rule, tuple(rule.check(case))) for rule in RULES),
        facts.libraries,
        tuple(sorted({name for elf in facts.elfs for name in case.imports(elf).torch})),
        facts.device_archs,
        facts.glibc,
    )
