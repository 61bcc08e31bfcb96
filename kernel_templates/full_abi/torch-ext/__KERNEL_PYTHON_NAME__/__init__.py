"""Root mean square normalisation of the last dimension, forward and backward."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops

__all__ = ["rms_norm"]


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """`x / sqrt(mean(x**2) + eps) * weight` over the last dimension of `x`.

    Computed in float32 (float64 for float64) and rounded once, to the dtype of `x`. Differentiable once.

    Args:
        x: float32, float64, bfloat16 or float16, shape `(..., d)`; copied first if it is not contiguous.
        weight: Shape `(d,)`, dtype and device of `x`.
        eps: Keeps rows of zeros finite.

    Returns:
        A contiguous tensor with shape, dtype and device of `x`.

    Raises:
        RuntimeError: A shape, dtype or device other than the above.
    """
    return ops.rms_norm(x, weight, eps)[0]


def _save(ctx, inputs, output) -> None:
    x, weight, _ = inputs
    _, scale = output
    ctx.mark_non_differentiable(scale)
    ctx.save_for_backward(x, weight, scale)


def _first_derivative(ctx, grad: torch.Tensor, _) -> tuple[torch.Tensor, torch.Tensor, None]:
    return (*ops.rms_norm_backward(grad, *ctx.saved_tensors), None)


def _second_derivative(ctx, *grads: torch.Tensor) -> None:
    raise NotImplementedError("rms_norm: only the first derivative is implemented")


torch.library.register_autograd(add_op_namespace_prefix("rms_norm"), _first_derivative, setup_context=_save)
torch.library.register_autograd(add_op_namespace_prefix("rms_norm_backward"), _second_derivative)


@torch.library.register_fake(add_op_namespace_prefix("rms_norm"))
def _(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    computed = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1], dtype=computed)


@torch.library.register_fake(add_op_namespace_prefix("rms_norm_backward"))
def _(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)
