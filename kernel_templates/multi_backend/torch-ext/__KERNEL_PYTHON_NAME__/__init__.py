"""Rotary position embedding, forward and backward."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops

__all__ = ["rotate", "tables"]


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inverse: bool = False) -> torch.Tensor:
    """Turns the pair `(x[..., s, i], x[..., s, d + i])` by the angle whose cosine is `cos[s, i]`.

    Computed in float32 (float64 for float64) and rounded once. Differentiable by `x` any number of times.

    Args:
        x: float32, float64, bfloat16 or float16, shape `(..., S, 2 * d)`; copied first if it is not contiguous.
        cos: float32 (float64 for float64), shape `(S, d)`; see `tables`.
        sin: The same.
        inverse: Whether to turn back.

    Returns:
        A contiguous tensor with shape, dtype and device of `x`.

    Raises:
        RuntimeError: A shape, dtype or device other than the above, or a table that requires a gradient.
    """
    if torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad):
        raise RuntimeError("rotate: gradients of `cos` and `sin` are not implemented")
    return ops.rotate(x, cos, sin, inverse)


def tables(positions: torch.Tensor, dim: int, base: float = 10000.0) -> tuple[torch.Tensor, torch.Tensor]:
    """`cos` and `sin` of shape `(S, dim // 2)`, float32, for `positions` of shape `(S,)` and heads of `dim` numbers."""
    steps = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / dim
    angles = torch.outer(positions.double(), base**-steps)
    return angles.cos().float(), angles.sin().float()


def _save(ctx, inputs, output) -> None:
    _, cos, sin, ctx.inverse = inputs
    ctx.save_for_backward(cos, sin)


def _derivative(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
    return ops.rotate(grad, *ctx.saved_tensors, not ctx.inverse), None, None, None  # a rotation's transpose


torch.library.register_autograd(add_op_namespace_prefix("rotate"), _derivative, setup_context=_save)


@torch.library.register_fake(add_op_namespace_prefix("rotate"))
def _(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, inverse: bool) -> torch.Tensor:
    return x.new_empty(x.shape)
