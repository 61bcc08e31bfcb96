"""Functions that kernels stand for: one object for all models, and a kernel for one of them."""
# ruff: noqa: S301  # the pickles are the tests' own

from __future__ import annotations

import copy
import inspect
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelworks import (
    LayerError,
    LocalFuncRepository,
    LocalLayerRepository,
    Mode,
    UsageError,
    kernelize,
    kernelize_report,
    register_kernel_mapping,
    unkernelize,
    use_kernel_forward_from_hub,
    use_kernel_func_from_hub,
    use_kernelized_func,
)

torch = pytest.importorskip("torch", reason="layers are modules of torch")
nn = torch.nn

X = torch.tensor([3.0])


@use_kernel_forward_from_hub("Increment")
def increment(x: torch.Tensor) -> torch.Tensor:
    """One more."""
    return x + 1


@use_kernelized_func(increment)
class Owner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return increment(x) * 10


class Stranger(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return increment(x) * 10


def register(toys: Path, layer: str = "Double") -> None:
    register_kernel_mapping({"Increment": {"cpu": LocalLayerRepository(toys, layer_name=layer)}})


def test_a_marked_function_is_still_that_function() -> None:
    assert increment(X) == 4
    assert increment(x=X) == 4
    assert (increment.__name__, increment.__doc__) == ("increment", "One more.")
    assert list(inspect.signature(increment).parameters) == ["x"]
    assert pickle.loads(pickle.dumps(increment)) is increment
    assert copy.deepcopy(increment) is increment


def test_a_kernel_for_one_model_is_none_for_another(toys: Path) -> None:
    register(toys)
    ours, theirs = Owner(), Owner()
    kernelize(ours, mode=Mode.INFERENCE, device="cpu")
    assert (ours(X), theirs(X), Stranger()(X), increment(X)) == (60, 40, 40, 4)
    assert list(kernelize_report(ours).replaced) == ["increment"]


def test_unkernelize_gives_the_owner_its_function_back(toys: Path) -> None:
    register(toys)
    model = nn.Sequential(Owner())
    assert kernelize(model, mode=Mode.INFERENCE, device="cpu")(X) == 60
    assert unkernelize(model)(X) == 40
    assert type(model[0]) is Owner


def test_a_function_that_is_a_submodule_runs_the_kernel_in_its_parent_only(toys: Path) -> None:
    class Parent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = increment

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(x) * 10

    register(toys)
    ours, theirs = nn.Sequential(Parent()), Parent()
    kernelize(ours, mode=Mode.INFERENCE, device="cpu")
    assert (ours(X), theirs(X), increment(X)) == (60, 40, 4)
    assert list(kernelize_report(ours).replaced) == ["0.function"]


def test_an_error_in_the_forward_leaves_the_function_as_it_was(toys: Path) -> None:
    @use_kernelized_func(increment)
    class Failing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError(x)

    register(toys)
    model = kernelize(Failing(), mode=Mode.INFERENCE, device="cpu")
    with pytest.raises(RuntimeError):
        model(X)
    assert increment(X) == 4


def test_owners_within_owners_run_what_each_was_given(toys: Path) -> None:
    @use_kernel_func_from_hub("Other")
    def other(x: torch.Tensor) -> torch.Tensor:
        return x + 7

    @use_kernelized_func(other)
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Owner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return other(self.inner(x))

    register_kernel_mapping(
        {
            "Increment": {"cpu": LocalFuncRepository(toys, func_name="double")},
            "Other": {"cpu": LocalLayerRepository(toys, layer_name="Eager")},
        }
    )
    model = kernelize(Outer(), mode=Mode.INFERENCE, device="cpu")
    assert (model(X), other(X)) == (180, 10)
    assert list(kernelize_report(model).replaced) == ["other", "inner.increment"]


def test_threads_run_their_own_models(toys: Path) -> None:
    inside, done = threading.Event(), threading.Event()

    @use_kernelized_func(increment)
    class Waiting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside.set()
            done.wait()
            return increment(x) * 10

    register(toys)
    model = kernelize(Waiting(), mode=Mode.INFERENCE, device="cpu")
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(model, X)
        inside.wait()
        ours = Owner()(X)
        done.set()
        assert (ours, theirs.result()) == (40, 60)


def test_a_subclass_owns_the_functions_of_its_base_too(toys: Path) -> None:
    @use_kernel_forward_from_hub("Other")
    def other(x: torch.Tensor) -> torch.Tensor:
        return x

    @use_kernelized_func(other)
    class Child(Owner):
        pass

    register(toys)
    model = kernelize(Child(), mode=Mode.INFERENCE, device="cpu")
    assert set(kernelize_report(model).layers) == {"increment", "other"}
    assert list(kernelize_report(kernelize(Owner(), mode=Mode.INFERENCE, device="cpu")).layers) == ["increment"]


def test_the_arguments_of_a_function_are_compared_with_the_layer(toys: Path) -> None:
    register(toys, "TwoArguments")
    with pytest.raises(LayerError, match=r"forward\(self, x, y\) stands for forward\(self, /, x\) .*2 arguments for 1"):
        kernelize(Owner(), mode=Mode.INFERENCE, device="cpu")


def test_an_owner_with_a_forward_set_on_it_keeps_its_functions(toys: Path) -> None:
    register(toys)
    model = Owner()
    model.forward = lambda x: increment(x) * 100
    kernelize(model, mode=Mode.INFERENCE, device="cpu", use_fallback=False)
    assert model(X) == 400
    assert "set on the module" in kernelize_report(model).kept["increment"].reason


def test_a_function_that_is_not_marked_cannot_be_owned() -> None:
    with pytest.raises(UsageError, match="mark the function by"):
        use_kernelized_func(torch.sin)


def test_a_function_that_is_kernelized_itself_runs_the_kernel_for_everybody(toys: Path) -> None:
    register(toys)
    kernelize(increment, mode=Mode.INFERENCE, device="cpu")
    assert Stranger()(X) == 60
    assert pickle.loads(pickle.dumps(increment)) is increment
    unkernelize(increment)
    assert Stranger()(X) == 40
