"""The verdicts of a rule of the audit, as `audit.json` and `--json` spell them."""

from __future__ import annotations

__all__ = ["FAIL", "NOT_APPLICABLE", "NOT_CHECKED", "PASS"]

PASS, FAIL, NOT_APPLICABLE, NOT_CHECKED = "pass", "fail", "not applicable", "not checked"
