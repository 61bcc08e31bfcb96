"""Which classes and functions of a model a kernel may stand for, and under which name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kernelworks.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from kernelworks.layers.functions import FunctionLayer

    Condition = Callable[[nn.Module], bool]

__all__ = [
    "attached_functions",
    "layer_name",
    "marked_forward",
    "replace_kernel_forward_from_hub",
    "use_kernel_forward_from_hub",
    "use_kernel_func_from_hub",
    "use_kernelized_func",
    "wants_kernel",
]

_T = TypeVar("_T")

_NAME = "kernel_layer_name"
_CONDITION = "kernel_condition"
_FUNCTIONS = "_kernel_funcs"


def replace_kernel_forward_from_hub(cls: type, layer_name: str, condition: Condition | None = None) -> None:
    """Mark `cls`: kernels for layer `layer_name` may replace the forward of its modules.

    For classes of others; for your own, `use_kernel_forward_from_hub` says the same where the class is written.

    Args:
        cls: A class of modules.
        layer_name: The name that mappings know it by.
        condition: Asked for every module when a model is kernelized; a module for which it gives False keeps its
            forward.
    """
    setattr(cls, _NAME, layer_name)
    setattr(cls, _CONDITION, staticmethod(condition or _always))


def use_kernel_forward_from_hub(layer_name: str, condition: Condition | None = None) -> Callable[[Any], Any]:
    """A decorator that marks a class of modules, as `replace_kernel_forward_from_hub` does, or a function.

    A function becomes a module that is called as the function is. Kernels stand for it in the models whose modules
    own it: by `use_kernelized_func`, or as a submodule.
    """

    def mark(marked: Any) -> Any:
        if inspect.isclass(marked):
            replace_kernel_forward_from_hub(marked, layer_name, condition)
            return marked
        if inspect.isfunction(marked):
            from kernelworks.layers.functions import function_layer  # noqa: PLC0415  # the loader runs without torch

            function = function_layer(marked)
            replace_kernel_forward_from_hub(type(function), layer_name, condition)
            return function
        raise UsageError(f"a kernel stands for a class of modules or a function, not for `{marked!r}`")

    return mark


def use_kernel_func_from_hub(func_name: str) -> Callable[[Any], Any]:
    """The older name of `use_kernel_forward_from_hub`, for functions."""
    return use_kernel_forward_from_hub(func_name)


def use_kernelized_func(*args: Callable[..., Any]) -> Callable[[_T], _T]:
    """A decorator for a class of modules that own the functions `args`: what kernels stand for them is up to each.

    While the forward of such a module runs, the functions run the kernels that it was kernelized with; elsewhere,
    and in other models, they are what they were.

    Args:
        *args: Functions that `use_kernel_forward_from_hub` has marked.

    Raises:
        UsageError: One of them is not marked.
    """
    from kernelworks.layers.functions import FunctionLayer  # noqa: PLC0415  # the loader runs without torch

    if unmarked := [function for function in args if not isinstance(function, FunctionLayer)]:
        raise UsageError(
            f"no kernel can stand for {', '.join(f'`{function!r}`' for function in unmarked)}",
            hint="mark the function by `@use_kernel_forward_from_hub(name)`",
        )

    def own(cls: _T) -> _T:
        setattr(cls, _FUNCTIONS, {**getattr(cls, _FUNCTIONS, {}), **{each.__name__: each for each in args}})
        return cls

    return own


def layer_name(cls: type) -> str | None:
    """The name that mappings know modules of `cls` by, or None where no kernel may stand for them."""
    name: str | None = getattr(cls, _NAME, None)
    return name


def marked_forward(cls: type) -> Any:
    """The forward that the mark of `cls` is about: that of the class which was marked, `cls` or a base of it."""
    return next(base for base in cls.__mro__ if _NAME in vars(base)).forward  # type: ignore[attr-defined]


def wants_kernel(module: nn.Module) -> bool:
    """What the condition of its mark says of `module`."""
    return bool(getattr(type(module), _CONDITION)(module))


def attached_functions(cls: type) -> Mapping[str, FunctionLayer]:
    """The functions that every module of `cls` owns, by name."""
    functions: Mapping[str, FunctionLayer] = getattr(cls, _FUNCTIONS, {})
    return functions


def _always(_module: nn.Module) -> bool:
    return True
