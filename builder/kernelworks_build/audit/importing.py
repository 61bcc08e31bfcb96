"""Imports the package of a variant in a process of its own, without a GPU, with the torch that is installed here.

The last proof of an audit: what the loader does, done. It is made where the installed torch fits the claims.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kernelworks.model.digest import canonical_json
from kernelworks_build.audit.report import RuleResult
from kernelworks_build.audit.rule import Case, Finding, Rule, bad, good
from kernelworks_build.claims import Claims

__all__ = ["import_check"]

_SECONDS = 300
_PROBE = """
import importlib, json, pathlib, sys, traceback
from kernelworks import host
from kernelworks.compat import Rejected, judge
from kernelworks.model.decode import parse_json
from kernelworks_build.claims import Claims
from kernelworks_build.promise import promised

order, answer = sys.argv[1:]
def tell(**found):
    pathlib.Path(answer).write_text(json.dumps(found), encoding="utf-8")

claims = Claims.from_json(parse_json(pathlib.Path(order, "claims.json").read_bytes(), "the claims"))
process = host.detect()
verdict = judge(promised(claims), process, claims.backend.kind)
if isinstance(verdict, Rejected):
    tell(absent="; ".join(reason.text for reason in verdict.reasons))
    sys.exit()
import torch
ops = lambda: {*torch._C._dispatch_get_all_op_names()}
before = ops()
sys.path.insert(0, str(pathlib.Path(order, "package")))
try:
    importlib.import_module(claims.package)
except ModuleNotFoundError as error:
    own = (error.name or "").partition(".")[0] == claims.package
    tell(**{"fault" if own else "absent": str(error)})
except Exception as error:
    tell(fault="".join(traceback.format_exception_only(type(error), error)).strip())
else:
    tell(torch=process.torch, ops=sorted({name.partition(".")[0] for name in ops() - before}))
"""


def import_check(claims: Claims, package: Path) -> RuleResult:
    """What importing the package with `claims`, whose files lie in `package`, gives."""
    if find_spec("torch") is None:
        return _result("torch is not installed here")
    with TemporaryDirectory(prefix="kernelworks-") as temporary:
        order, answer = Path(temporary), Path(temporary, "answer.json")
        (order / "claims.json").write_bytes(canonical_json(claims.to_json()))
        (order / "package").mkdir()
        (order / "package" / claims.package).symlink_to(package.absolute())
        env = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "HOME": temporary, "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-I", "-B", "-c", _PROBE, temporary, str(answer)]
        try:
            done = subprocess.run(
                command, cwd=temporary, env=env, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            return _result("", bad(f"importing it takes more than {_SECONDS} s"))
        if not answer.exists():
            said = done.stderr.strip().rpartition("\n")[2]
            return _result("", bad(f"Python ended while it was imported (exit code {done.returncode}): {said}"))
        found = json.loads(answer.read_bytes())
    return _result(found.get("absent", ""), *_findings(claims, found))


def _findings(claims: Claims, found: dict[str, Any]) -> list[Finding]:
    if "fault" in found:
        return [bad(f"importing it fails: {found['fault']}")]
    if "ops" not in found:
        return []
    strange = [op for op in found["ops"] if not op.startswith(f"{claims.id}::")]
    own = len(found["ops"]) - len(strange)
    imported = good(f"is imported without a GPU by torch {found['torch']}, and registers {own} ops")
    return [imported, *(bad(f"registers `{op}`, outside of its namespace `{claims.id}`") for op in strange)]


def _result(absent: str, *findings: Finding) -> RuleResult:
    def judged_already(_: Case) -> Any:
        return iter(findings)

    rule = Rule(
        "import", "it is imported without a GPU, and registers ops in its own namespace", judged_already, absent
    )
    return RuleResult.of(rule, findings)
