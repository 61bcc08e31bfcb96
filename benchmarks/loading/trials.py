"""Fresh processes that measure one thing each, of both loaders in turns, and the median of what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["HEAD", "OURS", "STOCK", "Row", "Taken", "child", "in_turns", "line", "taken"]

OURS, STOCK = "kernelworks", "kernels"
_CHILD = Path(__file__).with_name("child.py")
_ENVIRONMENTS = Path(__file__).parents[2] / "tests" / "environments.py"
_STOCK = "kernels-0.17.2"
_PATIENCE = 60.0
"""Seconds after which a process is given up."""

HEAD = f"{'':<44}{OURS:>12}  {'':<6}{'goal':>8}{STOCK:>28}{'ratio':>10}"


@dataclass(frozen=True)
class Taken:
    """What one process took: seconds, seconds, bytes; `failure` names the error that it ended with."""

    wall: float
    cpu: float
    memory: float
    failure: str | None = None


@dataclass(frozen=True)
class Row:
    """One comparison: what both took, in `unit`, or how one failed; `goal` is what ours should not exceed."""

    name: str
    unit: str
    ours: float | str
    stock: float | str | None = None
    goal: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times what ours took the other took."""
        numbers = isinstance(self.ours, float) and isinstance(self.stock, float)
        return self.stock / self.ours if numbers and self.ours else None  # type: ignore[operator]  # they are numbers


@cache
def python_of(loader: str) -> str:
    """The Python of the environment that has this loader."""
    if loader != STOCK:
        return sys.executable
    made = [sys.executable, str(_ENVIRONMENTS), _STOCK]
    return subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()


def child(loader: str, trial: str, env: Mapping[str, object], *, python: str | None = None) -> subprocess.Popen[str]:
    """A process that has begun to measure."""
    command = [python or python_of(loader), str(_CHILD), loader, trial]
    whole = os.environ | {name: str(value) for name, value in env.items()}
    return subprocess.Popen(command, env=whole, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def taken(process: subprocess.Popen[str]) -> Taken:
    """What `process` says when it is done."""
    with process:
        try:
            out, _ = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            return Taken(_PATIENCE, _PATIENCE, 0, f"> {_PATIENCE:.0f} s")
    facts: dict[str, Any] = json.loads(out)
    return Taken(**facts)


def in_turns(
    trial: str, envs: Mapping[str, Mapping[str, object]], rounds: int, loaders: Sequence[str] = (OURS, STOCK)
) -> dict[str, Taken]:
    """Loader -> the medians of what it took."""
    runs: dict[str, list[Taken]] = {loader: [] for loader in loaders}
    for _ in range(rounds):
        for loader, said in runs.items():
            said.append(taken(child(loader, trial, envs[loader])))
    return {loader: _median(said) for loader, said in runs.items()}


def _median(runs: Sequence[Taken]) -> Taken:
    wall, cpu, memory = (median(getattr(run, fact) for run in runs) for fact in ("wall", "cpu", "memory"))
    return Taken(wall, cpu, memory, next((run.failure for run in runs if run.failure), None))


def line(row: Row) -> str:
    """The row as a line of the table that `HEAD` is the first line of."""
    goal = "" if row.goal is None else f"{row.goal:g}"
    ratio = "" if row.ratio is None else f"{row.ratio:.1f}x"
    return f"{row.name:<44}{_text(row.ours):>12}  {row.unit:<6}{goal:>8}{_text(row.stock):>28}{ratio:>10}".rstrip()


def _text(value: float | str | None) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else value or ""
