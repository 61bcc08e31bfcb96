"""Runs the action of a variant: units that lie ready are left out, and as many at once as fit into memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from kernelworks_build.action import Action, ActionResult
from kernelworks_build.compile import CompileSpec
from kernelworks_build.compile_log import ran_out_of_memory
from kernelworks_build.job import Workplace
from kernelworks_build.schedule import available_memory, cores, duration, parallel_units
from kernelworks_build.units.reads import Trees
from kernelworks_build.units.unit import Unit, units
from kernelworks_build.units.unit_cache import Cost, UnitCache, compiled

__all__ = ["Compiled", "compile_units"]

_NOTHING = Cost(0, 0)
_RUNNING = re.compile(r"^\[(\d+)/\d+\] ")


@dataclass(frozen=True)
class Compiled:
    """How an action ended.

    Attributes:
        result: As the executor gave it.
        costs: What each unit that was compiled now took.
        ready: How many were compiled before.
        slim: Those that are tried with slim headers.
    """

    result: ActionResult
    costs: tuple[tuple[Unit, Cost], ...]
    ready: int
    slim: tuple[Unit, ...]

    @property
    def stats(self) -> dict[str, Any]:
        """What it cost, as JSON."""
        return {
            "cpu-seconds": self.result.cpu_seconds,
            "max-rss-bytes": self.result.max_rss_bytes,
            "units-cached": self.ready,
            "units": [{"object": unit.object, **cost.to_json()} for unit, cost in self.costs],
        }

    @property
    def headers(self) -> dict[str, str]:
        """Object of each unit that was tried with slim headers -> `slim`, or `full` where these did not do."""
        return {unit.object: (self.result.build_dir / unit.headers).read_text().strip() for unit in self.slim}


def compile_units(action: Action, spec: CompileSpec, workplace: Workplace, work: Path, label: str) -> Compiled:
    """Run `action`, which compiles `spec`, in `work/build`; a command that fails is a result, not an error.

    What memory ran out for is tried again, one unit at a time. What was compiled is kept, also where others failed.

    Args:
        action: Its trees exist.
        spec: What its compile.json says.
        workplace: Where and with what is built.
        work: An empty folder.
        label: What the progress is called.
    """
    build_dir = work / "build"
    build_dir.mkdir()
    trees, known = Trees(action), UnitCache(workplace.cache / "units", workplace.executor.name, workplace.progress)
    every = units(spec.document)
    missing = [unit for unit in every if not (workplace.unit_cache and known.lay(unit, trees, build_dir))]
    expected = {unit: known.expected(unit) or Cost(inf, spec.unit_memory) for unit in missing}
    order = sorted(range(len(every)), key=lambda at: -expected.get(every[at], _NOTHING).cpu_seconds)
    (build_dir / "order").write_text("".join(f"{at}\n" for at in order))

    def run(log: str, at_once: int) -> ActionResult:
        (build_dir / "jobs").write_text(f"{at_once}\n")
        left = [cost.cpu_seconds for unit, cost in expected.items() if unit.object not in compiled(build_dir)]
        with workplace.progress.task(label, len(missing) + 1, "steps", duration(left, at_once)) as advance:
            return workplace.executor.run(action, build_dir, work / log, _steps(advance))

    at_once = parallel_units(
        workplace.jobs,
        unit_memory=[cost.max_rss_bytes for cost in expected.values()],
        cores=cores(),
        memory=min(available_memory(), action.limits.memory_bytes),
    )
    result = run("log", at_once)
    if result.exit_code != 0 and at_once > 1 and ran_out_of_memory(result):
        workplace.progress.note(f"{label}: memory ran out; trying again, one unit at a time")
        _remove_halves(missing, build_dir)
        result = _together(result, run("log-alone", 1))
    done = compiled(build_dir)
    costs = tuple((unit, _cost(unit, result)) for unit in missing if unit.object in done)
    for unit, cost in costs if workplace.unit_cache else ():
        known.keep(unit, trees, build_dir, cost)
    return Compiled(result, costs, len(every) - len(missing), tuple(unit for unit in every if unit.slim))


def _cost(unit: Unit, result: ActionResult) -> Cost:
    """What `unit` took; nothing where it ended between two looks."""
    used = [job for job in result.jobs if f" -o {unit.object} " in job.command]
    return Cost(sum(job.cpu_seconds for job in used), max((job.max_rss_bytes for job in used), default=0))


def _remove_halves(missing: Sequence[Unit], build_dir: Path) -> None:
    """Remove what commands that were killed left: an object that lies there would be taken as it is."""
    whole = compiled(build_dir)
    for unit in missing:
        if unit.object not in whole:
            (build_dir / unit.object).unlink(missing_ok=True)


def _together(first: ActionResult, second: ActionResult) -> ActionResult:
    return replace(
        second,
        cpu_seconds=first.cpu_seconds + second.cpu_seconds,
        max_rss_bytes=max(first.max_rss_bytes, second.max_rss_bytes),
        jobs=(*first.jobs, *second.jobs),
    )


def _steps(advance: Callable[[int], None]) -> Callable[[str], None]:
    """Turns ninja's `[2/7] ...` lines into progress."""
    done = 0

    def on_line(line: str) -> None:
        nonlocal done
        if found := _RUNNING.match(line):
            advance(int(found[1]) - done)
            done = int(found[1])

    return on_line
