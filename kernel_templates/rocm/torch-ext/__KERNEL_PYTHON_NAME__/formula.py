"""The formulas in torch's own operators, on any device: what the CPU computes, and what tests compare with."""

from __future__ import annotations

import torch

__all__ = ["backward", "computed", "forward"]


def computed(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the computation, and of its results."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def forward(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses and normalisers of rows, as `cross_entropy` and its derivative need them."""
    wide = x.to(computed(x.dtype))
    normaliser = wide.logsumexp(-1)
    counts, column = _columns(x, target)
    return torch.where(counts, normaliser - wide.gather(-1, column).squeeze(-1), 0), normaliser


def backward(grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, normaliser: torch.Tensor) -> torch.Tensor:
    """The gradient of `x` for that of the losses."""
    counts, column = _columns(x, target)
    slope = (x.to(computed(x.dtype)) - normaliser.unsqueeze(-1)).exp()
    slope = slope.scatter_add(-1, column, torch.full_like(column, -1, dtype=slope.dtype))
    return torch.where(counts.unsqueeze(-1), grad.unsqueeze(-1) * slope, 0).to(x.dtype)


def _columns(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Whether each target is a class, and the column of it; some column where it is none."""
    counts = (target >= 0) & (target < x.shape[-1])
    return counts, torch.where(counts, target, 0).unsqueeze(-1)
