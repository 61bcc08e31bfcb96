"""Quantisation of rows to 8 bits: integers and one scale a row."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops

__all__ = ["dequantize_rows", "quantize_rows"]


def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`codes` and `scale` such that `codes * scale` is `x` to within half a `scale`; `scale` is `max(abs(row)) / 127`.

    A row with an infinity or NaN has codes 0, and its scale is that infinity or NaN. Not differentiable.

    Args:
        x: float32, bfloat16 or float16, shape `(..., d)`, on the CPU; copied first if it is not contiguous.

    Returns:
        int8 of the shape of `x`, and float32 of shape `x.shape[:-1]`; contiguous.

    Raises:
        RuntimeError: A shape or dtype other than the above.
    """
    return ops.quantize_rows(x.detach())


def dequantize_rows(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """`codes * scale`, float32: what `quantize_rows` kept."""
    return codes * scale.unsqueeze(-1)


@torch.library.register_fake(add_op_namespace_prefix("quantize_rows"))
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(x.shape, dtype=torch.int8), x.new_empty(x.shape[:-1], dtype=torch.float32)
