"""What became of every marked layer of a model, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kernelworks.errors import LayerError, UsageError
from kernelworks.layers.device import Target
from kernelworks.layers.mode import Mode
from kernelworks.layers.verdict import Kept, KernelizeFallback, Replaced, Verdict

if TYPE_CHECKING:
    from torch import nn

__all__ = ["KernelizeReport", "check_allowed", "forget_report", "keep_report", "kernelize_report"]

_reports: WeakKeyDictionary[nn.Module, KernelizeReport] = WeakKeyDictionary()


@dataclass(frozen=True)
class KernelizeReport:
    """What `kernelize` made of a model.

    Attributes:
        mode: What it was kernelized for.
        target: The device.
        layers: The path of every marked layer in the model (`""` for the model itself, `owner.function` for a
            function) -> what became of it.
    """

    mode: Mode
    target: Target
    layers: Mapping[str, Verdict]

    @property
    def replaced(self) -> dict[str, Replaced]:
        """The layers that run a kernel."""
        return {path: verdict for path, verdict in self.layers.items() if isinstance(verdict, Replaced)}

    @property
    def kept(self) -> dict[str, Kept]:
        """The layers that keep their forward."""
        return {path: verdict for path, verdict in self.layers.items() if isinstance(verdict, Kept)}

    def __str__(self) -> str:
        head = f"{len(self.replaced)} of {len(self.layers)} layers run kernels (mode {self.mode}, device {self.target})"
        return "\n".join((head, *_lines(self.layers)))

    def to_json(self) -> dict[str, Any]:
        layers = [{"path": path, **verdict.to_json()} for path, verdict in self.layers.items()]
        return {"mode": str(self.mode), "device": str(self.target), "layers": layers}


def kernelize_report(model: nn.Module) -> KernelizeReport:
    """What the last `kernelize` made of `model`.

    Raises:
        UsageError: It was not kernelized in this process, or has been unkernelized since.
    """
    if (report := _reports.get(model)) is None:
        raise UsageError(
            f"there is no report on this `{type(model).__qualname__}`: it was not kernelized in this process",
            hint="ask for the report on the model that was passed to `kernelize`",
        )
    return report


def keep_report(model: nn.Module, report: KernelizeReport) -> None:
    """Let `kernelize_report` give `report`, as long as `model` lives."""
    _reports[model] = report


def forget_report(model: nn.Module) -> None:
    """Let `kernelize_report` give none."""
    _reports.pop(model, None)


def check_allowed(layers: Mapping[str, Verdict], allowed: KernelizeFallback) -> None:
    """Return if every layer that keeps its forward may.

    Raises:
        LayerError: One may not; it names all of them.
    """
    refused = {
        path: verdict
        for path, verdict in layers.items()
        if isinstance(verdict, Kept) and (verdict.case is None or verdict.case not in allowed)
    }
    if not refused:
        return
    cases = sorted({str(verdict.case.name) for verdict in refused.values() if verdict.case})
    flags = " | ".join(f"KernelizeFallback.{case}" for case in cases)
    raise LayerError(
        "\n".join(
            (f"{len(refused)} of {len(layers)} layers cannot run kernels; nothing was changed:", *_lines(refused))
        ),
        hint=f"to let layers keep their forward in such cases, allow them: `use_fallback={flags}`" if flags else None,
        layers=[{"path": path, **verdict.to_json()} for path, verdict in refused.items()],
    ) from next((verdict.error for verdict in refused.values() if verdict.error), None)


def _lines(layers: Mapping[str, Verdict]) -> Iterator[str]:
    """One line per outcome, with the first layer that has it."""
    paths: dict[Verdict, list[str]] = {}
    for path, verdict in layers.items():
        paths.setdefault(verdict, []).append(path)
    for verdict, (first, *others) in paths.items():
        more = f" and {len(others)} more" if others else ""
        yield f"  `{first or '(the model)'}`{more} (`{verdict.cls}`): {verdict}"
