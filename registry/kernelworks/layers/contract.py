"""What a kernel's layer must be, so that its `forward` can run on the modules of another class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

__all__ = ["breaches", "runs_backward", "runs_compiled"]

_FLAGS = {"can_torch_compile", "has_backward"}


def runs_backward(layer: type[nn.Module]) -> bool:
    """Whether gradients flow through it; a layer that says nothing has a backward."""
    return bool(getattr(layer, "has_backward", True))


def runs_compiled(layer: type[nn.Module]) -> bool:
    """Whether `torch.compile` may trace it; a layer that says nothing is not made for that."""
    return bool(getattr(layer, "can_torch_compile", False))


def breaches(layer: Any, replaced: type[nn.Module]) -> tuple[str, ...]:
    """Every reason why the forward of `layer` cannot run on modules of class `replaced`.

    A layer has no state and no members of its own, for it is never instantiated; it takes as many arguments as the
    forward that it replaces, of the same kinds. Names of arguments may differ.
    """
    from torch import nn  # noqa: PLC0415  # the loader runs without torch

    if not (inspect.isclass(layer) and issubclass(layer, nn.Module)):
        return (f"`{layer!r}` is not a subclass of torch.nn.Module",)
    return (*_state(layer, nn.Module), *_signature(layer, replaced))


def _state(layer: Any, module: Any) -> Iterator[str]:
    if layer.__init__ is not module.__init__:
        yield "it has a constructor, which would never run"
    if extra := sorted(set(dir(layer)) - set(dir(module)) - _FLAGS):
        yield f"it has members that the replaced module lacks: {', '.join(f'`{name}`' for name in extra)}"


def _signature(layer: Any, replaced: type[nn.Module]) -> Iterator[str]:
    theirs, ours = _bare_signature(layer.forward), _bare_signature(replaced.forward)
    (_, *offered), (_, *needed) = theirs.parameters.values(), ours.parameters.values()
    both = f"its forward{theirs} stands for forward{ours} of `{replaced.__qualname__}`"
    if len(offered) != len(needed):
        yield f"{both}: {len(offered)} arguments for {len(needed)}"
    for offer, need in zip(offered, needed, strict=False):
        if offer.kind != need.kind:
            yield f"{both}: `{offer}` is {offer.kind.description}, and `{need}` is {need.kind.description}"


def _bare_signature(forward: Callable[..., Any]) -> inspect.Signature:
    """Its signature without annotations, which nothing depends on."""
    signature = inspect.signature(forward)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=bare, return_annotation=signature.empty)
