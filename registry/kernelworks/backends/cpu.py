"""The CPU: every process has one, and nothing but the platform decides whether code runs."""

from __future__ import annotations

from kernelworks.backends.spec import Backend, HostBackend

__all__ = ["BACKEND"]

BACKEND = Backend(name="cpu", label="CPU", rank=0, detect=lambda _torch: HostBackend("cpu"))
