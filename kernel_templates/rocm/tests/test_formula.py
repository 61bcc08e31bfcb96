"""The formulas that the kernel is compared with, against torch: they need no GPU, and no build."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch.nn import functional

FORMULA = Path(__file__).parents[1] / "torch-ext" / "__KERNEL_PYTHON_NAME__" / "formula.py"


@pytest.fixture(scope="session")
def formula():
    spec = importlib.util.spec_from_file_location("formula", FORMULA)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_the_formulas_are_torchs_cross_entropy_and_its_derivative(formula, dtype):
    x = torch.randn(5, 7, 11, dtype=dtype, generator=torch.Generator().manual_seed(0))
    target = torch.arange(35).reshape(5, 7) % 11
    target[0, 0] = -100
    exact = x.to(formula.computed(dtype)).requires_grad_()
    expected = functional.cross_entropy(exact.flatten(0, 1), target.flatten(), reduction="none").reshape(5, 7)
    grad = torch.linspace(-1, 1, 35, dtype=exact.dtype).reshape(5, 7)
    expected.backward(grad)

    loss, normaliser = formula.forward(x, target)
    grad_x = formula.backward(grad, x, target, normaliser)

    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(grad_x, exact.grad.to(dtype))
