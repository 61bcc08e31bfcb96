"""Which signatures lie beside the variants of a revision. None is checked here: loaders do, by their own trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelworks.model.metadata import METADATA_NAME
from kernelworks.model.variant import Variant
from kernelworks_server.records import Repo
from kernelworks_server.repositories import Repositories

__all__ = ["signatures"]

_PLACES = {
    "attestation": "attestations/{name}.dsse.json",
    "sigstore bundle": f"build/{{name}}/{METADATA_NAME}.sigstore",
}


def signatures(
    repositories: Repositories, repo: Repo, commit: str, variants: Sequence[Variant]
) -> Mapping[str, tuple[str, ...]]:
    """What kinds of signature there are of each variant, by its name."""
    paths = {place.format(name=variant.name) for variant in variants for place in _PLACES.values()}
    there = {entry.path for entry in repositories.paths_info(repo, commit, sorted(paths)) if entry.kind == "file"}
    return {
        variant.name: tuple(kind for kind, place in _PLACES.items() if place.format(name=variant.name) in there)
        for variant in variants
    }
