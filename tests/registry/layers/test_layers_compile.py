"""`torch.compile` traces kernelized models as a whole; its `eager` backend shows that without a compiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kernelworks import (
    LocalLayerRepository,
    Mode,
    kernelize,
    register_kernel_mapping,
    unkernelize,
)

torch = pytest.importorskip("torch", reason="layers are modules of torch")
nn = torch.nn

X = torch.tensor([3.0])
COMPILED = Mode.TRAINING | Mode.TORCH_COMPILE


@pytest.fixture
def model(models: ModuleType, toys: Path) -> Iterator[nn.Sequential]:
    register_kernel_mapping(
        {
            "Scale": {"cpu": LocalLayerRepository(toys, layer_name="Scaled")},
            "Increment": {"cpu": LocalLayerRepository(toys, layer_name="Double")},
        }
    )
    torch.compiler.reset()
    yield kernelize(nn.Sequential(models.Scale(), models.Owner()), mode=COMPILED, use_fallback=False)
    torch.compiler.reset()


def test_a_kernelized_model_is_one_graph(models: ModuleType, model: nn.Sequential) -> None:
    explanation = torch._dynamo.explain(nn.Sequential(model, models.Stranger()))(X)
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


def test_the_graph_computes_what_the_kernels_do_and_lets_gradients_through(
    models: ModuleType, model: nn.Sequential
) -> None:
    compiled = torch.compile(nn.Sequential(model, models.Stranger()), backend="eager", fullgraph=True)
    assert compiled(X) == 61
    compiled(X).backward()
    assert model[0].weight.grad == torch.tensor([12.0])


def test_a_compiled_model_follows_kernelize_and_unkernelize(model: nn.Sequential) -> None:
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert compiled(X) == 60
    unkernelize(model)
    assert compiled(X) == 16
    kernelize(model, mode=COMPILED)
    assert compiled(X) == 60


def test_an_exported_program_computes_what_the_kernels_do(model: nn.Sequential) -> None:
    assert torch.export.export(model, (X,)).module()(X) == 60
