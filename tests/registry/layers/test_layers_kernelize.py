"""`kernelize` on real models with a real kernel; it doubles what the original forward increments."""

from __future__ import annotations

import logging
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernelworks import (
    CUDAProperties,
    Device,
    KernelizeFallback,
    LayerError,
    LocalFuncRepository,
    LocalLayerRepository,
    Mode,
    RepositoryError,
    UsageError,
    kernelize,
    kernelize_report,
    register_kernel_mapping,
    replace_kernel_forward_from_hub,
    unkernelize,
    use_kernel_forward_from_hub,
)

torch = pytest.importorskip("torch", reason="layers are modules of torch")
nn = torch.nn
parametrize = torch.nn.utils.parametrize

X = torch.tensor([3.0])


@use_kernel_forward_from_hub("Increment")
class Increment(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def register(toys: Path, layer: str = "Double", mode: Mode | None = None) -> None:
    repository = LocalLayerRepository(toys, layer_name=layer)
    register_kernel_mapping({"Increment": {"cpu": {mode: repository} if mode else repository}})


def test_a_layer_runs_the_kernel_and_the_model_is_the_same_object(toys: Path) -> None:
    register(toys)
    model = nn.Sequential(Increment(), nn.Linear(1, 1), Increment())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert kernelize(model, mode=Mode.INFERENCE) is model
    assert model[0](X) == 6
    assert model.state_dict() == before
    assert repr(model[0]) == "Increment()"
    assert isinstance(model[2], Increment)


def test_a_model_that_is_a_layer_itself_runs_the_kernel(toys: Path) -> None:
    register(toys)
    model = kernelize(Increment(), mode=Mode.INFERENCE, device="cpu")
    assert model(X) == 6
    assert list(kernelize_report(model).replaced) == [""]


def test_unkernelize_leaves_no_trace(models: ModuleType, toys: Path) -> None:
    register(toys)
    model = nn.Sequential(Increment(), models.Scale())
    before = [(type(module), dict(vars(module))) for module in model.modules()]
    kernelize(model, mode=Mode.INFERENCE)
    assert unkernelize(model) is model
    assert [(type(module), dict(vars(module))) for module in model.modules()] == before
    assert model[0](X) == 4
    with pytest.raises(UsageError, match="was not kernelized in this process"):
        kernelize_report(model)


def test_gradients_flow_through_a_kernel_to_the_parameters_of_the_module(models: ModuleType, toys: Path) -> None:
    register_kernel_mapping({"Scale": {"cpu": LocalLayerRepository(toys, layer_name="Scaled")}})
    model = kernelize(models.Scale(), mode=Mode.TRAINING)
    x = torch.tensor([3.0], requires_grad=True)
    model(x).backward()
    assert model(x) == 30
    assert (model.weight.grad, x.grad) == (torch.tensor([6.0]), torch.tensor([10.0]))
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    assert model(x) == -6


def test_hooks_of_a_module_still_run(toys: Path) -> None:
    register(toys)
    model = kernelize(nn.Sequential(Increment()), mode=Mode.INFERENCE, device="cpu")
    seen: list[float] = []
    model[0].register_forward_hook(lambda _module, _inputs, output: seen.append(output.item()))
    model(X)
    assert seen == [6]


def test_kernelizing_again_follows_what_is_registered_now(toys: Path) -> None:
    register(toys)
    model = kernelize(nn.Sequential(Increment()), mode=Mode.INFERENCE, device="cpu")
    register(toys, "Eager")
    assert kernelize(model, mode=Mode.INFERENCE, device="cpu")(X) == 9
    register_kernel_mapping({}, inherit_mapping=False)
    assert kernelize(model, mode=Mode.INFERENCE, device="cpu")(X) == 4
    assert type(model[0]) is Increment


@pytest.mark.parametrize(
    ("registered", "wanted", "answer"),
    [
        (None, Mode.INFERENCE, 6),
        (None, Mode.TRAINING | Mode.TORCH_COMPILE, 6),
        (Mode.TRAINING, Mode.INFERENCE, 6),
        (Mode.TRAINING | Mode.TORCH_COMPILE, Mode.TRAINING, 6),
        (Mode.INFERENCE, Mode.TRAINING, 4),
        (Mode.TRAINING, Mode.TRAINING | Mode.TORCH_COMPILE, 4),
    ],
)
def test_a_kernel_runs_in_the_modes_that_it_is_registered_for(
    toys: Path, registered: Mode | None, wanted: Mode, answer: float
) -> None:
    register(toys, mode=registered)
    assert kernelize(nn.Sequential(Increment()), mode=wanted, device="cpu")(X) == answer


def test_of_several_modes_the_best_serves(toys: Path) -> None:
    double, triple = (LocalLayerRepository(toys, layer_name=name) for name in ("Double", "Eager"))
    register_kernel_mapping({"Increment": {"cpu": {Mode.INFERENCE: triple, Mode.TRAINING: double}}})
    assert kernelize(Increment(), mode=Mode.INFERENCE, device="cpu")(X) == 9
    assert kernelize(Increment(), mode=Mode.TRAINING, device="cpu")(X) == 6


@pytest.mark.parametrize(
    ("layer", "mode", "words"),
    [
        ("ForwardOnly", Mode.TRAINING, "has no backward, and mode TRAINING is wanted"),
        ("Eager", Mode.INFERENCE | Mode.TORCH_COMPILE, "is not made for torch.compile, and mode INFERENCE"),
    ],
)
def test_a_kernel_that_cannot_do_what_is_wanted_is_not_taken(toys: Path, layer: str, mode: Mode, words: str) -> None:
    register(toys, layer)
    model = kernelize(Increment(), mode=mode, device="cpu")
    assert model(X) == 4
    assert words in kernelize_report(model).kept[""].reason
    with pytest.raises(LayerError, match=words):
        kernelize(model, mode=mode, device="cpu", use_fallback=False)


@pytest.mark.parametrize(
    ("layer", "mode", "words"),
    [
        ("ForwardOnly", Mode.TRAINING, "it is registered for mode TRAINING and has no backward"),
        ("Eager", Mode.INFERENCE | Mode.TORCH_COMPILE, "and is not made for torch.compile"),
        ("Constructed", None, "it has a constructor, which would never run"),
        ("Extended", None, "it has members that the replaced module lacks: `extra`"),
        ("NoModule", None, "is not a subclass of torch.nn.Module"),
        (
            "TwoArguments",
            None,
            r"its forward\(self, x, y\) stands for forward\(self, x\) of `Increment`: 2 arguments for 1",
        ),
        ("KeywordOnly", None, "`x` is keyword-only, and `x` is positional or keyword"),
    ],
)
def test_a_layer_that_cannot_stand_for_the_class_is_an_error_whatever_is_allowed(
    toys: Path, layer: str, mode: Mode | None, words: str
) -> None:
    register(toys, layer, mode)
    model = Increment()
    with pytest.raises(LayerError, match=words):
        kernelize(model, mode=mode or Mode.INFERENCE, device="cpu", use_fallback=KernelizeFallback.ALL)
    assert model(X) == 4


def test_every_class_is_compared_with_the_layer(toys: Path) -> None:
    """One kernel for two classes: the second is not taken on the word of the first."""

    @use_kernel_forward_from_hub("Increment")
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    register(toys)
    kernelize(Increment(), mode=Mode.INFERENCE, device="cpu")
    with pytest.raises(LayerError, match=r"forward\(self, x, y\) of `.*Sum`: 1 arguments for 2"):
        kernelize(Sum(), mode=Mode.INFERENCE, device="cpu")


def test_a_subclass_with_a_forward_of_its_own_keeps_it(toys: Path) -> None:
    class Changed(Increment):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 100

    class Inherited(Increment):
        pass

    register(toys)
    model = nn.Sequential(Changed(), Inherited())
    kernelize(model, mode=Mode.INFERENCE, device="cpu", use_fallback=False)
    assert (model[0](X), model[1](X)) == (103, 6)
    assert "overrides the forward" in kernelize_report(model).kept["0"].reason


def test_a_forward_that_was_set_on_a_module_is_kept(toys: Path) -> None:
    register(toys)
    model = nn.Sequential(Increment(), Increment())
    model[0].forward = lambda x: x + 100
    kernelize(model, mode=Mode.INFERENCE, device="cpu", use_fallback=False)
    assert (model[0](X), model[1](X)) == (103, 6)
    assert "set on the module" in kernelize_report(model).kept["0"].reason


def test_a_condition_is_asked_for_every_module(toys: Path) -> None:
    class Biased(nn.Module):
        def __init__(self, bias: float) -> None:
            super().__init__()
            self.bias = bias

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.bias

    replace_kernel_forward_from_hub(Biased, "Increment", lambda module: module.bias == 1)
    register(toys)
    model = nn.Sequential(Biased(1), Biased(2))
    kernelize(model, mode=Mode.INFERENCE, device="cpu", use_fallback=False)
    assert (model[0](X), model[1](X)) == (6, 5)
    model[0].bias = 2
    assert kernelize(model, mode=Mode.INFERENCE, device="cpu")[0](X) == 5


def test_kernels_can_be_switched_off_by_the_environment(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(toys)
    model = kernelize(Increment(), mode=Mode.INFERENCE, device="cpu")
    monkeypatch.setenv("DISABLE_KERNEL_MAPPING", "1")
    assert kernelize(model, mode=Mode.INFERENCE, device="cpu", use_fallback=False)(X) == 4
    assert kernelize_report(model).kept[""].reason == "DISABLE_KERNEL_MAPPING is set"


@pytest.mark.parametrize(
    ("case", "layer", "device", "mode"),
    [
        (KernelizeFallback.NO_LAYER, "Other", "cpu", Mode.FALLBACK),
        (KernelizeFallback.NO_DEVICE, "Increment", "mps", Mode.FALLBACK),
        (KernelizeFallback.NO_COMPATIBLE_PROPERTIES, "Increment", Device("cuda", CUDAProperties(1, 2)), Mode.FALLBACK),
        (KernelizeFallback.NO_COMPATIBLE_MODE, "Increment", "cpu", Mode.INFERENCE),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_case_that_is_not_allowed_raises_and_one_that_is_keeps_the_forward(
    toys: Path, case: KernelizeFallback, layer: str, device: str | Device, mode: Mode
) -> None:
    register_kernel_mapping({layer: {device: {mode: LocalLayerRepository(toys, layer_name="Double")}}})
    here = device.type if isinstance(device, Device) else "cpu"
    with pytest.raises(LayerError, match=rf"allow them: `use_fallback=KernelizeFallback\.{case.name}`"):
        kernelize(Increment(), mode=Mode.TRAINING, device=here, use_fallback=KernelizeFallback.ALL ^ case)
    model = kernelize(Increment(), mode=Mode.TRAINING, device=here, use_fallback=case)
    assert model(X) == 4
    assert kernelize_report(model).kept[""].case == case


def test_a_kernel_that_cannot_be_loaded_raises_unless_that_is_allowed(toys: Path) -> None:
    register(toys / "missing")
    with pytest.raises(LayerError, match=r"cannot be loaded: kernel folder .* does not exist") as caught:
        kernelize(Increment(), mode=Mode.INFERENCE, device="cpu", use_fallback=KernelizeFallback.DEFAULT)
    assert isinstance(caught.value.__cause__, RepositoryError)
    model = kernelize(Increment(), mode=Mode.INFERENCE, device="cpu", use_fallback=KernelizeFallback.ALL)
    assert model(X) == 4
    assert kernelize_report(model).kept[""].case == KernelizeFallback.CANNOT_LOAD


def test_all_that_is_wrong_is_told_at_once_and_nothing_is_changed(models: ModuleType, toys: Path) -> None:
    @use_kernel_forward_from_hub("Unknown")
    class Unknown(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    register_kernel_mapping(
        {
            "Increment": {"cpu": LocalLayerRepository(toys, layer_name="Double")},
            "Scale": {"cpu": LocalLayerRepository(toys, layer_name="Scald")},
        }
    )
    model = nn.Sequential(Increment(), Unknown(), models.Scale(), Unknown())
    with pytest.raises(LayerError) as caught:
        kernelize(model, mode=Mode.INFERENCE, use_fallback=False)
    message = str(caught.value)
    assert message.startswith("3 of 4 layers cannot run kernels; nothing was changed:\n  `1` and 1 more")
    assert "no kernel is registered for layer `Unknown`" in message
    assert "did you mean `Scaled`?" in message
    assert "use_fallback=KernelizeFallback.CANNOT_LOAD | KernelizeFallback.NO_LAYER" in message
    assert [layer["path"] for layer in caught.value.context["layers"]] == ["1", "2", "3"]
    assert model[0](X) == 4


def test_a_report_says_what_runs_what_and_why_not(
    models: ModuleType, toys: Path, caplog: pytest.LogCaptureFixture
) -> None:
    register(toys)
    model = nn.Sequential(Increment(), nn.Sequential(Increment(), models.Scale()))
    with caplog.at_level(logging.INFO, "kernelworks"):
        kernelize(model, mode=Mode.INFERENCE)
    report = kernelize_report(model)
    assert str(report).splitlines() == [
        "2 of 3 layers run kernels (mode INFERENCE, device cpu)",
        f"  `0` and 1 more (`Increment`): runs layer `Double` of `{toys}` (variant `torch-cpu`)",
        "  `1.1` (`Scale`): keeps its forward: no kernel is registered for layer `Scale`",
    ]
    assert report.to_json()["layers"][0]["kernel"]["variant"] == "torch-cpu"
    assert str(report) in caplog.text
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "`Scale` keeps its forward: no kernel is registered for layer `Scale`"
    ]


def test_a_function_of_a_kernel_stands_for_a_layer(toys: Path) -> None:
    register_kernel_mapping({"Increment": {"cpu": LocalFuncRepository(toys, func_name="double")}})
    model = kernelize(Increment(), mode=Mode.TRAINING | Mode.TORCH_COMPILE, device="cpu", use_fallback=False)
    assert model(x=X) == 6


def test_a_repository_of_the_program_is_asked_for_its_layer() -> None:
    class Triple(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 3

    class Own:
        def load(self) -> type[nn.Module]:
            return Triple

    register_kernel_mapping({"Increment": {"cpu": Own()}})
    assert kernelize(Increment(), mode=Mode.INFERENCE, device="cpu")(X) == 9


def test_classes_that_are_told_of_their_subclasses_hear_nothing(toys: Path) -> None:
    heard: list[str] = []

    class Registry(Increment):
        def __init_subclass__(cls) -> None:
            super().__init_subclass__()
            heard.append(cls.__name__)

    register(toys)
    assert kernelize(Registry(), mode=Mode.INFERENCE, device="cpu")(X) == 6
    assert heard == []


class Negative(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -x


def test_a_parametrized_module_runs_its_kernel_and_has_to_be_put_right_first(models: ModuleType, toys: Path) -> None:
    register_kernel_mapping({"Scale": {"cpu": LocalLayerRepository(toys, layer_name="Scaled")}})
    model = kernelize(nn.Sequential(models.Scale()), mode=Mode.INFERENCE)
    parametrize.register_parametrization(model[0], "weight", Negative())
    assert model(X) == -30
    kernelize(model, mode=Mode.INFERENCE)
    assert "which it still runs" in kernelize_report(model).kept["0"].reason
    with pytest.raises(LayerError, match="the class of `0` was changed after it was given a kernel; undo that first"):
        unkernelize(model)
    parametrize.remove_parametrizations(model[0], "weight", leave_parametrized=False)
    assert unkernelize(model)(X) == 15


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": Mode.FALLBACK}, "must contain"),
        ({"mode": Mode.INFERENCE, "device": "cdua"}, "is not a device type"),
        ({"mode": Mode.INFERENCE}, "no parameter whose device could be taken"),
        ({"mode": Mode.INFERENCE, "device": "cpu", "use_fallback": "no"}, "use_fallback must be"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        kernelize(Increment(), **arguments)


def test_only_classes_and_functions_are_marked() -> None:
    with pytest.raises(UsageError, match="stands for a class of modules or a function"):
        use_kernel_forward_from_hub("Increment")(Increment())
