"""What models in several test files are made of: layers and a function, named as kernels that may replace them."""

from __future__ import annotations

import torch
from torch import nn

from kernelworks import use_kernel_forward_from_hub, use_kernelized_func

__all__ = ["Owner", "Scale", "Stranger", "increment"]


@use_kernel_forward_from_hub("Scale")
class Scale(nn.Module):
    """Five times its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([5.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


@use_kernel_forward_from_hub("Increment")
def increment(x: torch.Tensor) -> torch.Tensor:
    """One more."""
    return x + 1


@use_kernelized_func(increment)
class Owner(nn.Module):
    """Calls the kernel of `increment` where it is kernelized."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return increment(x)


class Stranger(nn.Module):
    """Calls `increment`, and says it to nobody."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return increment(x)
