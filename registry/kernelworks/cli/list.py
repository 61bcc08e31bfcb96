"""`kernelworks list`."""

from __future__ import annotations

import argparse

from kernelworks import settings
from kernelworks.cache.listing import Cached, cached_kernels
from kernelworks.cache.memory import age_of
from kernelworks.cli import Output
from kernelworks.cli.table import table

__all__ = ["run"]

_HEAD = ("kernel", "version", "commit", "variant", "bytes", "last loaded")


def run(_arguments: argparse.Namespace) -> Output:
    """Every variant in each layer of the cache, as far as records tell what it is."""
    layers = {str(layer): cached_kernels(layer) for layer in settings.cache_layers()}
    document = {
        "layers": [
            {"cache": layer, "kernels": [kernel.to_json() for kernel in kernels]} for layer, kernels in layers.items()
        ]
    }
    texts = [_text(layer, kernels) for layer, kernels in layers.items()]
    return Output(document, "\n\n".join(texts))


def _text(layer: str, kernels: tuple[Cached, ...]) -> str:
    title = f"{layer}: {sum(kernel.size for kernel in kernels)} bytes"
    return f"{title}\n{table(_HEAD, list(map(_row, kernels)))}" if kernels else title


def _row(kernel: Cached) -> tuple[str, ...]:
    origin = kernel.origin
    if origin is None:
        return ("-", "-", "-", kernel.folder.name[:16], str(kernel.size), "-")
    version = "-" if origin.version is None else str(origin.version)
    loaded = "-" if kernel.loaded is None else age_of(kernel.loaded)
    return origin.subject, version, (origin.commit or "-")[:16], kernel.variant or "-", str(kernel.size), loaded
