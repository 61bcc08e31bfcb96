"""Layers that `kernelize` can put in the place of a model's own: no constructor, no state, only `forward`."""

from __future__ import annotations

import torch
from torch import nn

from .._ops import ops

__all__ = ["SiluAndMul"]


class SiluAndMul(nn.Module):
    """`silu(x[..., :d]) * x[..., d:]`: shape `(..., 2 * d)` to `(..., d)`, dtype kept."""

    can_torch_compile = True
    has_backward = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.silu_and_mul(x)
