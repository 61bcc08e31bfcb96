"""What a variant folder holds besides the files of the kernel."""

from __future__ import annotations

__all__ = ["BESIDE", "METADATA_NAME"]

METADATA_NAME = "metadata.json"
BESIDE = frozenset({METADATA_NAME, f"{METADATA_NAME}.sigstore"})
