"""A module runs a kernel by being of another class, which is like its own but for `forward`.

So whatever copies a module, pickles it, asks for the signature of its forward or traces it gets the kernel, and
nothing about the module itself changes: neither its state nor its repr.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kernelworks.errors import LayerError
from kernelworks.layers.contract import breaches
from kernelworks.layers.kernel import LayerKernel

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Swap", "apply", "is_wrapped", "original_class"]

_SWAP = "_kernel_swap"


@dataclass(frozen=True)
class Swap:
    """What modules of a class run.

    Attributes:
        base: Their own class.
        kernel: What replaces its forward, or None.
        functions: (key of a function layer, what stands for it while the forward runs).
    """

    base: type[nn.Module]
    kernel: LayerKernel | None = None
    functions: tuple[tuple[str, LayerKernel], ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (self.base, self.kernel, self.functions))

    def __deepcopy__(self, memo: dict[int, Any]) -> Swap:
        return self


class _Kernelized:
    """The first base of every class that `_class_of` makes."""

    def __init_subclass__(cls) -> None:
        """Say nothing to the bases of a class that their authors did not write."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced = super().__reduce_ex__(protocol)
        swap = vars(type(self)).get(_SWAP)
        if swap is None or isinstance(reduced, str):
            return reduced
        make, arguments, *rest = reduced
        plain = tuple(swap.base if argument is type(self) else argument for argument in arguments)
        return (_made, (swap, make, plain), *rest)


def apply(swap: Swap, module: nn.Module) -> None:
    """Let `module`, of class `swap.base`, run what `swap` says."""
    if type(module) is not (cls := _class_of(swap)):
        object.__setattr__(module, "__class__", cls)  # not by nn.Module, which would look for a parameter


def original_class(module: nn.Module) -> type[nn.Module]:
    """The class of `module` but for kernels."""
    swap: Swap | None = vars(type(module)).get(_SWAP)
    return swap.base if swap else type(module)


def is_wrapped(module: nn.Module) -> bool:
    """Whether the class of `module` was changed by somebody else since the module was given a kernel."""
    return hasattr(type(module), _SWAP) and _SWAP not in vars(type(module))


@cache
def _class_of(swap: Swap) -> type[nn.Module]:
    base = swap.base
    if swap.kernel is None and not swap.functions:
        return base
    forward = swap.kernel.layer.forward if swap.kernel else base.forward
    if swap.functions:
        from kernelworks.layers.functions import running_with  # noqa: PLC0415  # the loader runs without torch

        forward = running_with({key: kernel.layer.forward for key, kernel in swap.functions}, forward)
    as_base = {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}
    meta: Any = type(base)
    made: type[nn.Module] = meta(base.__name__, (_Kernelized, base), {**as_base, "forward": forward, _SWAP: swap})
    return made


def _made(swap: Swap, make: Callable[..., nn.Module], arguments: tuple[Any, ...]) -> nn.Module:
    """The module that `make` gives as it gives one of the original class."""
    module = make(*arguments)
    apply(swap, module)
    return module


def _restored(
    base: type[nn.Module], kernel: LayerKernel | None, functions: tuple[tuple[str, LayerKernel | None], ...]
) -> Swap:
    """The pickled swap, without what could not be had; the class may have changed since it was pickled.

    Raises:
        LayerError: The kernel cannot stand for it any more.
    """
    if kernel and (faults := breaches(kernel.layer, base)):
        raise LayerError(
            f"{kernel} cannot stand for `{base.__qualname__}`: {'; '.join(faults)}", hint="kernelize the model again"
        )
    return Swap(base, kernel, tuple((key, found) for key, found in functions if found))
