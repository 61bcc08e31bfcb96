"""The verdict of an audit: every rule with its evidence, and the measured facts that the index carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelworks.model.variant import DeviceArchs
from kernelworks.model.variant_name import Version2, format_version
from kernelworks_build.audit.rule import Finding, Rule, good
from kernelworks_build.errors import AuditError
from kernelworks_build.verdicts import FAIL, NOT_APPLICABLE, NOT_CHECKED, PASS

__all__ = ["Report", "RuleResult"]


@dataclass(frozen=True)
class RuleResult:
    """What one rule found; the findings are never empty."""

    rule: Rule
    verdict: str
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, rule: Rule, findings: tuple[Finding, ...]) -> RuleResult:
        """The verdict over `findings`: the worst of them decides, none makes the rule not applicable."""
        if not findings:
            return cls(rule, NOT_APPLICABLE, (good(rule.absent),))
        found = {finding.ok for finding in findings}
        return cls(rule, FAIL if False in found else NOT_CHECKED if None in found else PASS, findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule.id,
            "title": self.rule.title,
            "verdict": self.verdict,
            "findings": [vars(finding) for finding in self.findings],
        }


@dataclass(frozen=True)
class Report:
    """The audit of one variant.

    Attributes:
        variant: Its name.
        results: One per rule, in the order of the rules.
        libraries: `DT_NEEDED` of all binaries, sorted.
        torch_symbols: Torch symbols that the binaries import, sorted.
        device_archs: Device code really inside.
        glibc: The oldest glibc (major, minor) that it loads with, or None where it needs none.
    """

    variant: str
    results: tuple[RuleResult, ...]
    libraries: tuple[str, ...]
    torch_symbols: tuple[str, ...]
    device_archs: DeviceArchs
    glibc: Version2 | None

    @property
    def ok(self) -> bool:
        """Whether no rule is known to be broken."""
        return all(result.verdict != FAIL for result in self.results)

    @property
    def failures(self) -> tuple[tuple[Rule, Finding], ...]:
        """Every bad finding with its rule."""
        return tuple(
            (result.rule, finding) for result in self.results for finding in result.findings if finding.ok is False
        )

    def require(self) -> None:
        """Return where no rule is broken.

        Raises:
            AuditError: Names every failed finding; `context["findings"]` holds them with rule and file.
        """
        if self.ok:
            return
        broken = len({rule.id for rule, _ in self.failures})
        lines = "".join(f"\n  {rule.id}: {_words(finding)}" for rule, finding in self.failures)
        raise AuditError(
            f"`{self.variant}` breaks {broken} of {len(self.results)} rules:{lines}",
            hint="; ".join(dict.fromkeys(rule.hint for rule, _ in self.failures if rule.hint)) or None,
            variant=self.variant,
            findings=[{"rule": rule.id, **vars(finding)} for rule, finding in self.failures],
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "variant": self.variant,
            "ok": self.ok,
            "rules": [result.to_json() for result in self.results],
            "libraries": list(self.libraries),
            "torch-symbols": list(self.torch_symbols),
            "device-archs": self.device_archs.to_json(),
            "glibc": format_version(self.glibc) if self.glibc else None,
        }


def _words(finding: Finding) -> str:
    return f"{finding.evidence} in `{finding.file}`" if finding.file else finding.evidence
