"""`kernelworks info`."""

from __future__ import annotations

import argparse
from typing import Any

from kernelworks import settings
from kernelworks.cli import Output
from kernelworks.cli.table import table
from kernelworks.model.index import Index
from kernelworks.model.variant import Variant
from kernelworks.model.variant_name import format_version
from kernelworks.transport import connect, read_revision

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> Output:
    """Every version of a repository with its variants."""
    transport = connect(arguments.registry or settings.registry() or settings.hub(), settings.cache_layers())
    repo_id = arguments.repo_id
    revisions = [read_revision(transport, repo_id, ref.commit) for ref in transport.versions(repo_id).values()]
    document = {
        "repo_id": repo_id,
        "registry": transport.location,
        "versions": [_revision(commit, index) for commit, index in revisions],
    }
    head = ("version", "variant", "archs", "glibc", "hermetic", "bytes", "sha256")
    rows = [(str(index.version), *_row(variant)) for _, index in revisions for variant in index.variants]
    return Output(document, f"{repo_id} in {transport.location}\n{table(head, rows)}")


def _revision(commit: str, index: Index) -> dict[str, Any]:
    return {
        "version": index.version,
        "commit": commit,
        "license": index.license,
        "source": index.source.to_json(),
        "variants": [
            {
                "name": variant.name,
                "backend": variant.backend.to_json(),
                "glibc": _glibc(variant),
                "hermetic": variant.hermetic,
                "wheel": variant.wheel.to_json(),
            }
            for variant in index.variants
        ],
    }


def _row(variant: Variant) -> tuple[str, ...]:
    return (
        variant.name,
        ",".join(variant.backend.archs.spelled()) or "-",
        _glibc(variant) or "-",
        "yes" if variant.hermetic else "no",
        str(variant.wheel.size),
        variant.wheel.sha256[:16],
    )


def _glibc(variant: Variant) -> str | None:
    return format_version(variant.platform.glibc) if variant.platform.glibc else None
