"""The logarithm of a sum of exponentials over the last dimension, forward and backward."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix, ops

__all__ = ["log_sum_exp"]


def log_sum_exp(x: torch.Tensor) -> torch.Tensor:
    """`log(sum(exp(x)))` over the last dimension, without overflow: what a softmax or cross entropy divides by.

    Computed in float32 (float64 for float64) and not rounded after. Differentiable once.

    Args:
        x: float32, float64, bfloat16 or float16, shape `(..., d)`, on a CUDA device; copied first if it is not
            contiguous.

    Returns:
        A contiguous tensor of shape `x.shape[:-1]`, float32 (float64 for float64); minus infinity where `d` is 0.

    Raises:
        RuntimeError: A shape or dtype other than the above.
    """
    return ops.log_sum_exp(x)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs, output)


def _first_derivative(ctx, grad: torch.Tensor) -> torch.Tensor:
    return ops.log_sum_exp_backward(grad, *ctx.saved_tensors)


def _second_derivative(ctx, grad: torch.Tensor) -> None:
    raise NotImplementedError("log_sum_exp: only the first derivative is implemented")


torch.library.register_autograd(add_op_namespace_prefix("log_sum_exp"), _first_derivative, setup_context=_save)
torch.library.register_autograd(add_op_namespace_prefix("log_sum_exp_backward"), _second_derivative)


@torch.library.register_fake(add_op_namespace_prefix("log_sum_exp"))
def _(x: torch.Tensor) -> torch.Tensor:
    computed = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.new_empty(x.shape[:-1], dtype=computed)


@torch.library.register_fake(add_op_namespace_prefix("log_sum_exp_backward"))
def _(grad: torch.Tensor, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape)
