"""The builder's families of errors; the root and the conventions are `kernelworks.errors`."""

from __future__ import annotations

from kernelworks.errors import KernelworksError

__all__ = [
    "AuditError",
    "CompileError",
    "ManifestError",
    "PackError",
    "PlanError",
    "PublishError",
    "RebuildError",
    "SandboxError",
    "TestError",
    "ToolchainError",
]


class ManifestError(KernelworksError):
    """`build.toml` is faulty; `context["diagnostics"]` holds every fault with file, line and column."""

    code = "manifest"
    exit_code = 20


class PlanError(KernelworksError):
    """Nothing, or nothing possible, was asked for."""

    code = "plan"
    exit_code = 21


class ToolchainError(KernelworksError):
    """A locked artifact cannot be had, or its bytes are not those of the lock."""

    code = "toolchain"
    exit_code = 22


class SandboxError(KernelworksError):
    """The sandbox cannot be set up on this machine."""

    code = "sandbox"
    exit_code = 23


class CompileError(KernelworksError):
    """A source does not compile; `context` holds command, output and log."""

    code = "compile"
    exit_code = 24


class AuditError(KernelworksError):
    """A wheel breaks a rule; `context["findings"]` holds each with its evidence."""

    code = "audit"
    exit_code = 25


class PackError(KernelworksError):
    """The built files cannot be packed into a wheel."""

    code = "pack"
    exit_code = 26


class PublishError(KernelworksError):
    """The registry did not take the revision."""

    code = "publish"
    exit_code = 27


class TestError(KernelworksError):
    """The kernel's own tests do not pass; `context["pytest"]` is the exit code of pytest."""

    __test__ = False  # pytest: this is no test
    code = "test"
    exit_code = 28


class RebuildError(KernelworksError):
    """A wheel cannot be made again from its own record, or not byte for byte."""

    code = "rebuild"
    exit_code = 29
