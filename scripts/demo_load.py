"""Loads a published `silu_and_mul` in this fresh process, compares it with torch and times both."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from kernelworks import get_kernel

ROWS, COLUMNS = 2048, 2 * 4096
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def reference(x: torch.Tensor) -> torch.Tensor:
    """The same in torch: silu of the first half times the second half of the last dimension."""
    half = x.shape[-1] // 2
    return torch.nn.functional.silu(x[..., :half]) * x[..., half:]


def main(repo_id: str) -> None:
    """Compare forward and backward in fp32 and bf16, and print what was found."""
    start = time.perf_counter()
    kernel = get_kernel(repo_id, backend="cpu")
    print(f"{repo_id} loaded in {1e3 * (time.perf_counter() - start):.1f} ms as {kernel.__name__}")
    for dtype, tolerance in TOLERANCE.items():
        x = torch.randn(ROWS, COLUMNS, dtype=dtype)
        ours, theirs = (_run(function, x) for function in (kernel.silu_and_mul, reference))
        for name, got, expected in zip(("forward", "backward"), ours, theirs, strict=True):
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
            print(f"  {dtype} {name}: equal to torch within {tolerance:g}")
        fast, slow = (_seconds(function, x) for function in (kernel.silu_and_mul, reference))
        print(f"  {dtype} forward: {1e3 * fast:.2f} ms, eager torch {1e3 * slow:.2f} ms ({slow / fast:.1f}x)")


def _run(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = x.clone().requires_grad_()
    out = function(leaf)
    out.backward(torch.ones_like(out))
    assert leaf.grad is not None
    return out.detach(), leaf.grad


def _seconds(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


if __name__ == "__main__":
    main(sys.argv[1])
