"""Kernels of pure Python in real folders, with layers that differ visibly from what they replace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from kernelworks.layers import mapping
from kernelworks.model.digest import list_tree
from kernelworks.model.metadata import Metadata

LAYERS = """
from torch import nn


class Double(nn.Module):
    can_torch_compile = True

    def forward(self, x):
        return x * 2


class Scaled(nn.Module):
    can_torch_compile = True
    weight: nn.Parameter

    def forward(self, inputs):
        return inputs * self.weight * 2


class Eager(nn.Module):
    def forward(self, x):
        return x * 3


class ForwardOnly(nn.Module):
    can_torch_compile = True
    has_backward = False

    def forward(self, x):
        return x * 4


class Constructed(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return x


class Extended(nn.Module):
    def forward(self, x):
        return self.extra(x)

    def extra(self, x):
        return x


class TwoArguments(nn.Module):
    def forward(self, x, y):
        return x


class KeywordOnly(nn.Module):
    def forward(self, *, x):
        return x


class NoModule:
    def forward(self, x):
        return x


def double(x):
    return x * 2


double.can_torch_compile = True
"""


def write_variant(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a variant for the CPU of any machine below `folder`."""
    variant = folder / "build" / "torch-cpu"
    variant.mkdir(parents=True)
    for name, text in files.items():
        (variant / name).write_text(text)
    metadata = Metadata(
        id="_toys_cpu_1a2b3c4d",
        name="toys",
        version=1,
        license="Apache-2.0",
        backend="cpu",
        archs=(),
        python_depends=(),
        files=list_tree(variant),
        builder_version="0",
    )
    (variant / "metadata.json").write_bytes(metadata.to_bytes())
    return folder


@pytest.fixture
def write_kernel() -> Callable[[Path, Mapping[str, str]], Path]:
    return write_variant


@pytest.fixture(scope="session")
def models() -> ModuleType:
    """The module of `models.py`; pickle finds its classes by the name that it has here."""
    spec = spec_from_file_location("layer_models", Path(__file__).with_name("models.py"))
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    """The folder of a kernel with layers `Double`, `Scaled`, `Eager`, ... and the function `double`."""
    sources = {"__init__.py": "from . import layers\nfrom .layers import double\n", "layers.py": LAYERS}
    return write_variant(tmp_path / "toys", sources)


@pytest.fixture
def layer_sources() -> dict[str, bytes]:
    """The files of the same kernel."""
    return {
        "__init__.py": b"from . import layers\nfrom .layers import double\n",
        "layers.py": LAYERS.encode(),
    }


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test starts and ends without a mapping, as a process of its own would."""
    monkeypatch.delenv("DISABLE_KERNEL_MAPPING", raising=False)
    monkeypatch.setattr(mapping, "_registered", mapping.KernelMapping({}))
    token = mapping._in_context.set(None)
    yield
    mapping._in_context.reset(token)
