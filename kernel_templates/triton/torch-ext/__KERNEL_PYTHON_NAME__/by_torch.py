# __WITH cpu__
"""The formulas in torch's own operators: for devices that Triton does not reach."""

from __future__ import annotations

import torch

__all__ = ["backward", "forward"]


def forward(scores: torch.Tensor, scale: float) -> torch.Tensor:
    """Weights of dense `scores`, shape `(..., Q, K)`."""
    queries, keys = scores.shape[-2:]
    seen = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).tril(keys - queries)
    scaled = (scores.to(_computed(scores)) * scale).masked_fill(~seen, -torch.inf)
    return scaled.softmax(-1).to(scores.dtype)


def backward(grad: torch.Tensor, weights: torch.Tensor, scale: float) -> torch.Tensor:
    """Gradient of the scores: `scale * weights * (grad - sum(grad * weights))`."""
    exact_grad, exact = grad.to(_computed(grad)), weights.to(_computed(weights))
    weighted = exact_grad * exact
    return (scale * (weighted - exact * weighted.sum(-1, keepdim=True))).to(weights.dtype)


def _computed(tensor: torch.Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
# __END__
