"""`kernelize` and `unkernelize`: the layers of a model are judged, and all change or none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from kernelworks import settings
from kernelworks.errors import LayerError, UsageError
from kernelworks.layers.device import target_of
from kernelworks.layers.mapping import current_mapping
from kernelworks.layers.marks import attached_functions, layer_name, wants_kernel
from kernelworks.layers.mode import Mode, serving
from kernelworks.layers.report import KernelizeReport, check_allowed, forget_report, keep_report
from kernelworks.layers.swap import Swap, apply, is_wrapped, original_class
from kernelworks.layers.verdict import Kept, KernelizeFallback, Request, Verdict, judge

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["kernelize", "unkernelize"]

_log = logging.getLogger("kernelworks")

_Model = TypeVar("_Model", bound="nn.Module")
_Judge = Callable[["type[nn.Module]"], Verdict]

_LOUD = KernelizeFallback.NO_LAYER | KernelizeFallback.CANNOT_LOAD
"""Cases that more often than not are a mistake or a fault, whether allowed or not."""


def kernelize(
    model: _Model,
    *,
    mode: Mode,
    device: str | torch.device | None = None,
    use_fallback: bool | KernelizeFallback = True,
) -> _Model:
    """Let the marked layers of `model` run the kernels that are registered for them; `model` itself, changed.

    Layers that an earlier call gave kernels and this one does not get their own forward back. `kernelize_report`
    says what became of each.

    Args:
        model: A model with layers of classes that are marked, or of such a class itself.
        mode: INFERENCE or TRAINING, perhaps with TORCH_COMPILE.
        device: What it will run on: a device type, or a torch device; without it, where its parameters are.
        use_fallback: In which cases a layer may keep its own forward; True is `KernelizeFallback.DEFAULT`, False
            `KernelizeFallback.NONE`.

    Raises:
        UsageError: An argument cannot be right.
        LayerError: Layers cannot run kernels that may not keep their forward; no layer was changed.
    """
    serving(mode)
    request = Request(mode, target_of(model, device), current_mapping(), settings.kernel_mapping_disabled())
    judged: Any = cache(partial(judge, request=request))
    swaps, verdicts = _plan(model, judged)
    check_allowed(verdicts, _allowed(use_fallback))
    for module, swap in swaps:
        apply(swap, module)
    report = KernelizeReport(mode, request.target, verdicts)
    keep_report(model, report)
    _tell(report)
    return model


def unkernelize(model: _Model) -> _Model:
    """Give every module of `model` its own forward back; `model` itself, changed.

    Raises:
        LayerError: Something else changed the class of modules after they were given kernels; nothing was changed.
    """
    if wrapped := [path for path, module in model.named_modules() if is_wrapped(module)]:
        raise LayerError(
            f"the class of {', '.join(f'`{path}`' for path in wrapped)} was changed after it was given a kernel",
            hint="undo that first, such as a parametrization; or kernelize before it",
            layers=wrapped,
        )
    for module in model.modules():
        apply(Swap(original_class(module)), module)
    forget_report(model)
    return model


def _plan(model: nn.Module, judged: _Judge) -> tuple[list[tuple[nn.Module, Swap]], dict[str, Verdict]]:
    """What every module that is marked or owns functions will run, and the verdicts by path."""
    from kernelworks.layers.functions import FunctionLayer  # noqa: PLC0415  # the loader runs without torch

    swaps: list[tuple[nn.Module, Swap]] = []
    verdicts: dict[str, Verdict] = {}
    for path, module in model.named_modules():
        if isinstance(module, FunctionLayer) and module is not model:
            continue  # one object for all models: its owner runs what stands for it in this one
        base, kernel, stand_ins = original_class(module), None, []
        if layer_name(base):
            verdicts[path] = own = _verdict(module, module, judged)
            kernel = own.kernel
        children = {name: child for name, child in module.named_children() if isinstance(child, FunctionLayer)}
        for name, function in {**attached_functions(base), **children}.items():
            verdicts[f"{path}.{name}" if path else name] = inner = _verdict(function, module, judged)
            if inner.kernel:
                stand_ins.append((function.key, inner.kernel))
        swaps.append((module, Swap(base, kernel, tuple(stand_ins))))
    return swaps, verdicts


def _verdict(layer: nn.Module, owner: nn.Module, judged: _Judge) -> Verdict:
    """The verdict on a module, or on a function that `owner` owns: that on its class, unless these two object."""
    cls = original_class(layer)
    keep = partial(Kept, cls.__qualname__, str(layer_name(cls)))
    if "forward" in vars(owner):
        return keep("a forward was set on the module itself")
    if is_wrapped(owner):
        return keep("its class was changed after it was given a kernel, which it still runs")
    if not wants_kernel(layer):
        return keep("its condition says so")
    return judged(cls)


def _allowed(use_fallback: bool | KernelizeFallback) -> KernelizeFallback:
    if isinstance(use_fallback, KernelizeFallback):
        return use_fallback
    if type(use_fallback) is not bool:
        raise UsageError(f"use_fallback must be True, False or a KernelizeFallback, not `{use_fallback!r}`")
    return KernelizeFallback.DEFAULT if use_fallback else KernelizeFallback.NONE


def _tell(report: KernelizeReport) -> None:
    _log.info("%s", report)
    for verdict in dict.fromkeys(report.kept.values()):
        if verdict.case and verdict.case in _LOUD:
            _log.warning("`%s` %s", verdict.cls, verdict)
