"""The gate of SwiGLU feed-forward blocks: `silu(x[..., :d]) * x[..., d:]` in one pass over memory."""

from __future__ import annotations

import torch

from . import layers
from ._ops import add_op_namespace_prefix, ops

__all__ = ["layers", "silu_and_mul"]


def silu_and_mul(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`silu(gate) * value`, where `gate` and `value` are the halves of the last dimension of `x`.

    Computed in float32 (float64 for float64) and rounded once, to the dtype of `x`. Differentiable once.

    Args:
        x: float32, float64, bfloat16 or float16, shape `(..., 2 * d)`; copied first if it is not contiguous.
        out: Contiguous, shape `(..., d)`, dtype and device of `x`, not overlapping `x`: where the result is written.
            As everywhere in torch, autograd cannot record such a call.

    Returns:
        A contiguous tensor of shape `(..., d)`, dtype and device of `x`; `out` if it was given.

    Raises:
        RuntimeError: A shape, dtype or device other than the above, or `out` where gradients are recorded.
    """
    if out is None:
        return ops.silu_and_mul(x)
    if torch.is_grad_enabled() and (x.requires_grad or out.requires_grad):
        raise RuntimeError("silu_and_mul: autograd cannot record a call with `out`; use torch.no_grad()")
    ops.silu_and_mul_out(x, out)
    return out


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _first_derivative(ctx, grad: torch.Tensor) -> torch.Tensor:
    return ops.silu_and_mul_backward(grad, *ctx.saved_tensors)


def _second_derivative(ctx, grad: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("silu_and_mul: only the first derivative is implemented")


torch.library.register_autograd(
    add_op_namespace_prefix("silu_and_mul"), _first_derivative, setup_context=_save
)
torch.library.register_autograd(add_op_namespace_prefix("silu_and_mul_backward"), _second_derivative)


@torch.library.register_fake(add_op_namespace_prefix("silu_and_mul"))
def _(x: torch.Tensor) -> torch.Tensor:
    torch._check(x.dim() > 0 and x.shape[-1] % 2 == 0)
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


@torch.library.register_fake(add_op_namespace_prefix("silu_and_mul_out"))
def _(x: torch.Tensor, out: torch.Tensor) -> None:
    pass


@torch.library.register_fake(add_op_namespace_prefix("silu_and_mul_backward"))
def _(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape)
