"""The rules of the audit, in the order of the report. A new rule is one file and one line here."""

from __future__ import annotations

from kernelworks_build.audit.rule import Rule
from kernelworks_build.audit.rules import (
    device_archs,
    exports,
    files,
    libc_floor,
    libraries,
    memory_protection,
    module_name,
    op_namespace,
    platform,
    python_abi,
    search_path,
    symbol_versions,
    torch_symbols,
    unversioned_symbols,
    vendored,
)

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    files.RULE,
    module_name.RULE,
    platform.RULE,
    libraries.RULE,
    search_path.RULE,
    vendored.RULE,
    symbol_versions.RULE,
    libc_floor.RULE,
    unversioned_symbols.RULE,
    torch_symbols.RULE,
    python_abi.RULE,
    op_namespace.RULE,
    device_archs.RULE,
    exports.RULE,
    memory_protection.RULE,
)
