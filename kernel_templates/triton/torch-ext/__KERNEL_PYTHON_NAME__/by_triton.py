# __WITH cuda rocm__
"""The formulas in Triton: one program per row, which is read once, stays in registers and is written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["backward", "forward"]


@triton.jit
def _forward(scores, out, queries, keys, SCALE: tl.constexpr, REAL: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    seen = columns <= row % queries + keys - queries
    x = SCALE * tl.load(scores + row * keys + columns, mask=seen, other=-float("inf")).to(REAL)
    powers = tl.where(seen, tl.exp(x - tl.max(x, 0)), 0.0)
    weights = powers / tl.sum(powers, 0)
    tl.store(out + row * keys + columns, weights, mask=columns < keys)


@triton.jit
def _backward(grad, weights, out, keys, SCALE: tl.constexpr, REAL: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < keys
    g = tl.load(grad + row * keys + columns, mask=inside, other=0.0).to(REAL)
    w = tl.load(weights + row * keys + columns, mask=inside, other=0.0).to(REAL)
    tl.store(out + row * keys + columns, SCALE * w * (g - tl.sum(g * w, 0)), mask=inside)


def forward(scores: torch.Tensor, scale: float) -> torch.Tensor:
    """Weights of dense `scores`, shape `(..., Q, K)`."""
    out = torch.empty_like(scores)
    if scores.numel():
        with torch.cuda.device_of(scores):
            _forward[_rows(scores)](scores, out, *scores.shape[-2:], **_constants(scores, scale))
    return out


def backward(grad: torch.Tensor, weights: torch.Tensor, scale: float) -> torch.Tensor:
    """Gradient of the scores, from dense tensors."""
    out = torch.empty_like(weights)
    if weights.numel():
        with torch.cuda.device_of(weights):
            _backward[_rows(weights)](grad, weights, out, weights.shape[-1], **_constants(weights, scale))
    return out


def _rows(tensor: torch.Tensor) -> tuple[int]:
    return (tensor.numel() // tensor.shape[-1],)


def _constants(tensor: torch.Tensor, scale: float) -> dict:
    """What a program is compiled for: the scale, the type of the computation, a power of two that holds a row."""
    block = triton.next_power_of_2(tensor.shape[-1])
    return {
        "SCALE": scale,
        "REAL": tl.float64 if tensor.dtype == torch.float64 else tl.float32,
        "BLOCK": block,
        "num_warps": min(max(block // 512, 1), 16),
    }
# __END__
