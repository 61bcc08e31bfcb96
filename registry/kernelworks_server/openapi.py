"""The documented interface for programs: `openapi.yaml`, with the version of this server."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from kernelworks._version import __version__

__all__ = ["document"]


@cache
def document() -> dict[str, Any]:
    """The OpenAPI description of this registry (OpenAPI 3.1)."""
    described: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("openapi.yaml").read_bytes())
    described["info"]["version"] = __version__
    return described
