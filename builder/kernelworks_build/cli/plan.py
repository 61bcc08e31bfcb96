"""`kernel-build plan`: which variants a build makes, and why others are left out."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelworks.model.variant_name import format_version
from kernelworks_build.cli.console import print_json, print_table
from kernelworks_build.cli.project import ArchOption, ProjectArgument, VariantOption, open_plan
from kernelworks_build.matrix import Matrix
from kernelworks_build.planned import BuildPlan, PlannedVariant


class Format(str, Enum):
    """How the plan is printed."""

    TABLE = "table"
    JSON = "json"
    GITHUB = "github"


def command(
    project: ProjectArgument = Path(),
    *,
    variant: VariantOption = None,
    arch: ArchOption = None,
    output: Annotated[
        Format,
        typer.Option("--format", help="table, json, or github: a matrix for Actions, in one line.", metavar="NAME"),
    ] = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print the variants that `build` would make, and why not others."""
    _, plan, _ = open_plan(project, variant, arch)
    if output is Format.GITHUB:
        sys.stdout.write(f"{json.dumps({'include': list(map(_job, plan.variants))})}\n")  # outputs are lines there
    elif as_json or output is Format.JSON:
        print_json(_document(plan))
    else:
        print_table(
            "variants",
            ("variant", "backend", "archs", "headers of", "loads with torch"),
            (
                (
                    item.name,
                    item.backend.kind + (f" {format_version(item.backend.version)}" if item.backend.version else ""),
                    " ".join(item.backend.archs.spelled()) or "-",
                    item.headers.release if item.headers else "-",
                    ", ".join(item.torch_releases) or "-",
                )
                for item in plan.variants
            ),
        )
        for title, reasons in plan.reasons.items():
            rows = (("\n".join(subjects), reason) for reason, subjects in reasons.items())
            print_table(title, ("what", "why"), rows)


def _job(item: PlannedVariant) -> dict[str, Any]:
    """What one job of a GitHub matrix is told."""
    row = Matrix.load().backends[item.backend.kind] if item.trees else None
    return {
        "variant": item.name,
        "backend": item.backend.kind,
        "toolkit": format_version(item.backend.version) if item.backend.version else "",
        "archs": ",".join(item.backend.archs.spelled()),
        "unit-memory": row.memory_against(item.framework.kind) if row else 0,
    }


def _document(plan: BuildPlan) -> dict[str, Any]:
    return {
        "variants": [
            {
                "name": item.name,
                "framework": item.framework.to_json(),
                "backend": item.backend.to_json(),
                "python-abi": item.python_abi.to_json(),
                "platform": item.platform.to_json(),
                "torch-headers": item.headers.release if item.headers and item.torch_releases else None,
                "torch-releases": list(item.torch_releases),
                "locks": list(item.locks),
            }
            for item in plan.variants
        ],
        "skipped": [
            {"subject": item.subject, "reason": item.reason, "by": item.by, "partial": item.partial}
            for item in plan.skipped
        ],
    }
