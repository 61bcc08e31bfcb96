"""The cross entropy of logits and classes, a loss for each row, forward and backward."""

from __future__ import annotations

import torch

from . import formula
from ._ops import add_op_namespace_prefix, ops

__all__ = ["cross_entropy"]


def cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """`logsumexp(x) - x[target]` over the last dimension: how surprising each class is, by unnormalised logits.

    Computed in float32 (float64 for float64) and not rounded after. Differentiable once, by `x`. A target that is no
    class, such as -100, leaves its row out: the loss is 0, and so is the gradient.

    Args:
        x: float32, float64, bfloat16 or float16, shape `(..., classes)`; copied first if it is not contiguous. On a
            ROCm device the kernel computes, on the CPU torch's own operators.
        target: int64, shape `x.shape[:-1]`, on the device of `x`.

    Returns:
        A contiguous tensor of shape `x.shape[:-1]`, float32 (float64 for float64).

    Raises:
        RuntimeError: A shape or dtype other than the above.
    """
    loss, _normaliser = ops.cross_entropy(x, target)
    return loss


def _save(ctx, inputs, output) -> None:
    _loss, normaliser = output
    ctx.mark_non_differentiable(normaliser)
    ctx.save_for_backward(*inputs, normaliser)


def _first_derivative(ctx, grad: torch.Tensor, _: torch.Tensor | None) -> tuple[torch.Tensor, None]:
    return ops.cross_entropy_backward(grad, *ctx.saved_tensors), None


def _second_derivative(ctx, grad: torch.Tensor) -> None:
    raise NotImplementedError("cross_entropy: only the first derivative is implemented")


torch.library.register_autograd(add_op_namespace_prefix("cross_entropy"), _first_derivative, setup_context=_save)
torch.library.register_autograd(add_op_namespace_prefix("cross_entropy_backward"), _second_derivative)
torch.library.register_kernel(add_op_namespace_prefix("cross_entropy"), "cpu", formula.forward)
torch.library.register_kernel(add_op_namespace_prefix("cross_entropy_backward"), "cpu", formula.backward)


@torch.library.register_fake(add_op_namespace_prefix("cross_entropy"))
def _(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    loss = x.new_empty(target.shape, dtype=formula.computed(x.dtype))
    return loss, torch.empty_like(loss)


@torch.library.register_fake(add_op_namespace_prefix("cross_entropy_backward"))
def _(grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, normaliser: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape)
