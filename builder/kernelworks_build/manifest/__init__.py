"""The manifest stage: `build.toml` -> `Manifest`, or every fault of the file at once."""

from __future__ import annotations

from kernelworks_build.manifest.backends import Component
from kernelworks_build.manifest.diagnostics import Diagnostic
from kernelworks_build.manifest.files import MANIFEST, source_files
from kernelworks_build.manifest.grammar import Version
from kernelworks_build.manifest.model import Manifest
from kernelworks_build.manifest.read import check_manifest, parse_manifest, read_manifest, require

__all__ = [
    "MANIFEST",
    "Component",
    "Diagnostic",
    "Manifest",
    "Version",
    "check_manifest",
    "parse_manifest",
    "read_manifest",
    "require",
    "source_files",
]
