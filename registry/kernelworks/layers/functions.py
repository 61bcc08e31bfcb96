"""Functions as layers: what a model calls by name, and what a kernel exports as a function.

A function of a model is one object for every model that calls it, so a kernel cannot be put into it: the module
that owns the function says, for as long as its `forward` runs in this thread, which kernel the function is. No
`forward` awaits, so a thread runs one at a time; `torch.compile` traces attributes of a `threading.local` that are
set in its `__init__`, and no context variable.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from torch import nn

__all__ = ["FunctionLayer", "function_layer", "layer_of", "running_with"]

Forward = Callable[..., Any]


class _Running(threading.local):
    def __init__(self) -> None:
        self.kernels: Mapping[str, Forward] = {}


_running = _Running()


class FunctionLayer(nn.Module):  # type: ignore[misc]  # torch is not looked into
    """A function that a kernel can stand for; called as the function is, it does what the function does.

    It is pickled as functions are, by its name.
    """

    key: str

    def __reduce__(self) -> str:
        return str(vars(self)["__qualname__"])


def function_layer(function: Callable[..., Any]) -> FunctionLayer:
    """`function` as a layer that has its name, its signature and its documentation."""
    key = f"{function.__module__}.{function.__qualname__}"

    def forward(self: FunctionLayer, *args: Any, **kwargs: Any) -> Any:
        kernel = _running.kernels.get(key)
        return kernel(self, *args, **kwargs) if kernel else function(*args, **kwargs)

    made: FunctionLayer = _class_of(function, forward, FunctionLayer, key=key)()
    functools.update_wrapper(made, function)
    return made


@functools.cache
def layer_of(function: Callable[..., Any]) -> type[nn.Module]:
    """The layer whose `forward` is `function`, a function of a kernel; one class per function."""

    def forward(_self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return _class_of(function, forward, nn.Module)


def running_with(kernels: Mapping[str, Forward], forward: Forward) -> Forward:
    """`forward`, during which the function layers with the keys of `kernels` run those."""

    @functools.wraps(forward)
    def run(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        before = _running.kernels
        _running.kernels = {**before, **kernels}
        try:
            return forward(self, *args, **kwargs)
        finally:
            _running.kernels = before

    return run


def _class_of(function: Callable[..., Any], forward: Any, base: type, **members: Any) -> type:
    module = Parameter("self", Parameter.POSITIONAL_ONLY)
    signature = inspect.signature(function)
    forward.__signature__ = signature.replace(parameters=[module, *signature.parameters.values()])
    flags = {
        "can_torch_compile": getattr(function, "can_torch_compile", False),
        "has_backward": getattr(function, "has_backward", True),
    }
    return type(function.__name__, (base,), {"__module__": function.__module__, "forward": forward, **flags, **members})
