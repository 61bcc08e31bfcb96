"""The manifest stage: `build.toml` -> `Manifest`, or every fault of the file at once."""

from __future__ import annotations

from kernelworks_build.manifest.backends import Component
from kernelworks_build.manifest.diagnostics import Diagnostic
from kernelworks_build.manifest.files import MANIFEST, source_files
from kernelworks_build.manifest.grammar import EDITION, Version
from kernelworks_build.manifest.migrate import migrate
from kernelworks_build.manifest.model import Manifest
from kernelworks_build.manifest.read import check_manifest, manifest_bytes, parse_manifest, read_manifest, require

__all__ = [
    "EDITION",
    "MANIFEST",
    "Component",
    "Diagnostic",
    "Manifest",
    "Version",
    "check_manifest",
    "manifest_bytes",
    "migrate",
    "parse_manifest",
    "read_manifest",
    "require",
    "source_files",
]
