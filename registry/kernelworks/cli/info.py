"""`kernelworks info`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from kernelworks import settings
from kernelworks.cli import Output
from kernelworks.cli.table import table
from kernelworks.model.variant import Variant
from kernelworks.model.variant_name import format_version
from kernelworks.sources import registries_of
from kernelworks.transport import Transport, connect, parse_index
from kernelworks.transport.foreign import read_foreign
from kernelworks.transport.revision import Ref
from kernelworks.transport.several import first_having

__all__ = ["run"]

_HEAD = ("version", "variant", "archs", "glibc", "hermetic", "bytes", "sha256")


def run(arguments: argparse.Namespace) -> Output:
    """Every version of a repository with its variants, and which ones are yanked."""
    repo_id = arguments.repo_id
    transports = (connect(one, settings.cache_layers()) for one in registries_of(arguments.registry))
    transport, refs = first_having(repo_id, transports, lambda one: (one, one.versions(repo_id)))
    read = {version: _read(transport, repo_id, version, ref.commit) for version, ref in refs.items()}
    document = {
        "repo_id": repo_id,
        "registry": transport.location,
        "versions": [
            {
                "version": version,
                "commit": ref.commit,
                "yanked": ref.yanked,
                **facts,
                "variants": list(map(_json, found)),
            }
            for (version, ref), (facts, found) in zip(refs.items(), read.values(), strict=True)
        ],
    }
    rows = [(str(version), *_row(variant)) for version, (_, variants) in read.items() for variant in variants]
    lines = [f"{repo_id} in {transport.location}", table(_HEAD, rows), *_yanks(refs)]
    return Output(document, "\n".join(lines))


def _read(transport: Transport, repo_id: str, version: int, commit: str) -> tuple[dict[str, Any], tuple[Variant, ...]]:
    """(facts of the revision, its variants); without an index, what names and places tell."""
    said = transport.read_index(repo_id, commit)
    if said.tree is not None:
        return {"license": None, "source": None}, read_foreign(said.tree, said.repo_id, commit).variants
    index = parse_index(repo_id, commit, said.index or b"", version)
    return {"license": index.license, "source": index.source.to_json()}, index.variants


def _yanks(refs: Mapping[int, Ref]) -> list[str]:
    yanked = {version: ref.yanked for version, ref in refs.items() if ref.yanked is not None}
    return [f"version {version} is yanked: {why or 'no reason is given'}" for version, why in yanked.items()]


def _json(variant: Variant) -> dict[str, Any]:
    return {
        "name": variant.name,
        "backend": variant.backend.to_json(),
        "glibc": _glibc(variant),
        "hermetic": variant.hermetic,
        "wheel": variant.wheel.to_json() if variant.wheel.path else None,
    }


def _row(variant: Variant) -> tuple[str, ...]:
    return (
        variant.name,
        ",".join(variant.backend.archs.spelled()) or "-",
        _glibc(variant) or "-",
        "yes" if variant.hermetic else "no",
        str(variant.wheel.size) if variant.wheel.path else "-",
        variant.wheel.sha256[:16] or "-",
    )


def _glibc(variant: Variant) -> str | None:
    return format_version(variant.platform.glibc) if variant.platform.glibc else None
