"""Kernelized modules that are copied, saved, and loaded again: here, in a new process, and without the kernel."""
# ruff: noqa: S301  # the pickles are the tests' own

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernelworks import (
    LayerError,
    LayerRepository,
    LocalLayerRepository,
    Mode,
    api,
    kernelize,
    load,
    register_kernel_mapping,
    restoring_kernels,
)
from kernelworks.layers import repository

torch = pytest.importorskip("torch", reason="layers are modules of torch")
nn = torch.nn

X = torch.tensor([3.0])


@pytest.fixture
def model(models: ModuleType, toys: Path) -> nn.Module:
    register_kernel_mapping(
        {
            "Scale": {"cpu": LocalLayerRepository(toys, layer_name="Scaled")},
            "Increment": {"cpu": LocalLayerRepository(toys, layer_name="Double")},
        }
    )
    return kernelize(nn.Sequential(models.Scale(), models.Owner()), mode=Mode.INFERENCE)


def forget_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Be on another machine: no kernel is loaded, and the cache is empty."""
    api._modules.clear()
    for name in list(load._kernels):
        load._forget(name)
    monkeypatch.setenv("KERNELWORKS_CACHE", str(tmp_path / "other-cache"))


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy], ids=["deep", "shallow"])
def test_a_copy_runs_the_kernel_on_its_own_parameters(model: nn.Sequential, copied: Any) -> None:
    other = copied(model[0])
    vars(other)["_parameters"] = {"weight": torch.tensor([7.0])}
    assert (other(X).item(), model[0](X).item()) == (42, 30)
    assert copied(model)(X) == 60


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_keeps_the_kernel(model: nn.Sequential, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(model, protocol))
    assert again(X) == 60
    assert type(again[0]) is type(model[0])


def test_a_saved_model_keeps_the_kernel(model: nn.Sequential) -> None:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.load(file, weights_only=False)(X) == 60


def test_weights_are_those_of_the_model_without_kernels(models: ModuleType, model: nn.Sequential) -> None:
    plain = nn.Sequential(models.Scale(), models.Owner())
    plain.load_state_dict(model.state_dict())
    assert plain.state_dict().keys() == model.state_dict().keys()


MODULE = """
import sys
import torch
from torch import nn
from kernelworks import use_kernel_forward_from_hub


@use_kernel_forward_from_hub("Increment")
class Increment(nn.Module):
    def forward(self, x):
        return x + 1
"""
WRITE = """
from kernelworks import LocalLayerRepository, Mode, kernelize, use_kernel_mapping
with use_kernel_mapping({"Increment": {"cpu": LocalLayerRepository(sys.argv[1], layer_name="Double")}}):
    torch.save(kernelize(Increment(), mode=Mode.INFERENCE, device="cpu"), sys.argv[2])
"""
READ = "print(torch.load(sys.argv[1], weights_only=False)(torch.tensor([3.0])).item())"


def test_another_process_runs_the_kernel(toys: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODULE)
    saved = str(tmp_path / "model.pt")
    prelude = "from model import *\n"
    subprocess.run([sys.executable, "-c", prelude + WRITE, toys, saved], cwd=tmp_path, check=True)
    run = [sys.executable, "-c", prelude + READ, saved]
    done = subprocess.run(run, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("6.0\n", "")


def test_a_pickle_from_another_machine_gets_the_kernel_from_the_registry_at_its_commit(
    models: ModuleType,
    registry: Any,
    pack: Any,
    layer_sources: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    published = registry.publish("org/toys", 1, pack(layer_sources))
    mapped = LayerRepository("org/toys", layer_name="Scaled", version=1, trust_remote_code=True)
    register_kernel_mapping({"Scale": {"cpu": mapped}})
    data = pickle.dumps(kernelize(models.Scale(), mode=Mode.INFERENCE))
    newer = {**layer_sources, "layers.py": layer_sources["layers.py"].replace(b"* 2", b"* 1000")}
    registry.publish("org/toys", 2, pack(newer))
    forget_everything(monkeypatch, tmp_path)
    assert pickle.loads(data)(X) == 30
    assert load.get_loaded_kernels()[-1].origin.commit == published.commit


def test_consent_comes_from_whoever_unpickles(
    models: ModuleType,
    registry: Any,
    pack: Any,
    layer_sources: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    registry.publish("org/toys", 1, pack(layer_sources))
    mapped = LayerRepository("org/toys", layer_name="Scaled", version=1, trust_remote_code=True)
    register_kernel_mapping({"Scale": {"cpu": mapped}})
    data = pickle.dumps(kernelize(models.Scale(), mode=Mode.INFERENCE))
    consents = []

    def get_kernel(repo_id: str, **arguments: Any) -> Any:
        consents.append(arguments["trust_remote_code"])
        return api.get_kernel(repo_id, **arguments)

    monkeypatch.setattr(repository, "get_kernel", get_kernel)
    forget_everything(monkeypatch, tmp_path)
    pickle.loads(data)
    forget_everything(monkeypatch, tmp_path / "once-more")
    with restoring_kernels(trust_remote_code=True):
        pickle.loads(data)
    assert consents == [False, True]


def test_a_kernel_that_is_gone_is_named(
    model: nn.Sequential, toys: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = pickle.dumps(model)
    toys.rename(tmp_path / "moved")
    forget_everything(monkeypatch, tmp_path)
    with pytest.raises(LayerError, match=r"runs layer `Scaled` of `.*toys`: .* does not exist") as caught:
        pickle.loads(data)
    assert "restoring_kernels(use_fallback=True)" in str(caught.value)


def test_a_kernel_that_is_gone_may_be_done_without(
    models: ModuleType,
    model: nn.Sequential,
    toys: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = pickle.dumps(model)
    toys.rename(tmp_path / "moved")
    forget_everything(monkeypatch, tmp_path)
    with restoring_kernels(use_fallback=True):
        again = pickle.loads(data)
    assert again(X) == 16
    assert [type(module) for module in again] == [models.Scale, models.Owner]
    assert "restored with its original forward" in caplog.text


def test_a_class_that_has_changed_since_is_told(
    models: ModuleType, model: nn.Sequential, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pickle.dumps(model)
    monkeypatch.setattr(models.Scale, "forward", lambda self, x, y: x)  # noqa: ARG005
    with pytest.raises(LayerError, match=r"cannot stand for `Scale`.*kernelize the model again"):
        pickle.loads(data)
