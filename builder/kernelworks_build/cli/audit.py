"""`kernel-build audit`: every rule over finished wheels, pass or fail, with the evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from kernelworks_build.audit import audit
from kernelworks_build.audit.importing import import_check
from kernelworks_build.audit.rule import Finding
from kernelworks_build.cli.console import JsonOption, print_json, print_table
from kernelworks_build.cli.project import open_locks
from kernelworks_build.errors import AuditError
from kernelworks_build.toolchain.symbol_list import symbols
from kernelworks_build.wheel import unpack_wheel


def command(
    wheels: Annotated[list[Path], typer.Argument(help="Wheels that kernel-build made.", metavar="WHEEL")],
    *,
    run: Annotated[
        bool, typer.Option("--import", help="Also import each with the torch that is installed: this runs its code.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Audit wheels; the exit code says whether every rule passed."""
    reports, locks = {}, open_locks(Path())
    for wheel in wheels:
        with TemporaryDirectory(prefix="kernelworks-") as temporary:
            claims, package = unpack_wheel(wheel, Path(temporary))
            report = audit(claims, package, lambda lock: symbols(locks.symbol_list(lock)))
            imported = (import_check(claims, package),) if run else ()
            reports[wheel] = replace(report, results=(*report.results, *imported))
    if as_json:
        print_json({"wheels": [{"wheel": str(wheel), **report.to_json()} for wheel, report in reports.items()]})
    else:
        for wheel, report in reports.items():
            print_table(
                wheel.name,
                ("rule", "verdict", "evidence"),
                ((item.rule.id, item.verdict, "\n".join(map(_words, item.findings))) for item in report.results),
            )
    failed = [wheel.name for wheel, report in reports.items() if not report.ok]
    if failed and as_json:
        raise typer.Exit(AuditError.exit_code)
    if failed:
        raise AuditError(f"{len(failed)} of {len(wheels)} wheels break a rule: {', '.join(failed)}", wheels=failed)


def _words(finding: Finding) -> str:
    return f"{finding.evidence} ({finding.file})" if finding.file else finding.evidence
