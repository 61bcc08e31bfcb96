"""Softmax of scaled and masked attention scores, forward and backward."""

from __future__ import annotations

import torch

from ._ops import add_op_namespace_prefix

__all__ = ["causal_softmax"]


def causal_softmax(scores: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Softmax of `scale * scores` over the keys that each query may see: query `q` sees key `k` if `k - q <= K - Q`.

    Computed in float32 (float64 for float64) and rounded once. Differentiable once.

    Args:
        scores: float32, float64, bfloat16 or float16, shape `(..., Q, K)` with `Q <= K`: queries are the last of the
            keys. Copied first if it is not contiguous.
        scale: Factor of the scores, usually `1 / sqrt(head_dim)`.

    Returns:
        A contiguous tensor with shape, dtype and device of `scores`; keys that are not seen have weight 0.

    Raises:
        ValueError: A shape or dtype other than the above.
    """
    if scores.dim() < 2 or scores.shape[-2] > scores.shape[-1]:
        raise ValueError(f"causal_softmax: `scores` must have shape (..., Q, K), Q <= K, not {tuple(scores.shape)}")
    if not scores.is_floating_point() or scores.dtype.itemsize < 2:
        raise ValueError(
            f"causal_softmax: `scores` must be float32, float64, bfloat16 or float16, not {scores.dtype}"
        )
    return _forward(scores, scale)


def _implementation(tensor: torch.Tensor):
    """The module that computes on the device of `tensor`, imported when it is needed: not everybody has Triton."""
    # __WITH cuda rocm__
    if tensor.is_cuda:
        from . import by_triton

        return by_triton
    # __END__
    # __WITH cpu__
    from . import by_torch

    return by_torch
    # __END__
    # __WITHOUT cpu__
    raise NotImplementedError(f"causal_softmax: `scores` must be on a GPU, not on {tensor.device}")
    # __END__


@torch.library.custom_op(add_op_namespace_prefix("causal_softmax"), mutates_args=())
def _forward(scores: torch.Tensor, scale: float) -> torch.Tensor:
    return _implementation(scores).forward(scores.contiguous(), scale)


@torch.library.custom_op(add_op_namespace_prefix("causal_softmax_backward"), mutates_args=())
def _backward(grad: torch.Tensor, weights: torch.Tensor, scale: float) -> torch.Tensor:
    return _implementation(weights).backward(grad.contiguous(), weights.contiguous(), scale)


@_forward.register_fake
def _(scores: torch.Tensor, scale: float) -> torch.Tensor:
    return scores.new_empty(scores.shape)


@_backward.register_fake
def _(grad: torch.Tensor, weights: torch.Tensor, scale: float) -> torch.Tensor:
    return weights.new_empty(weights.shape)


def _save(ctx, inputs, output) -> None:
    ctx.scale = inputs[1]
    ctx.save_for_backward(output)


def _first_derivative(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
    return _backward(grad, *ctx.saved_tensors, ctx.scale), None


def _second_derivative(ctx, grad: torch.Tensor) -> None:
    raise NotImplementedError("causal_softmax: only the first derivative is implemented")


_forward.register_autograd(_first_derivative, setup_context=_save)
_backward.register_autograd(_second_derivative)
