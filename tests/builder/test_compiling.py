"""How the units of a variant run: which start first, how many at once, and what becomes of one that memory ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelworks_build.action import Action, ActionResult, JobUsage, Limits, Mount, Tree
from kernelworks_build.compile import CompileSpec
from kernelworks_build.compiling import compile_units
from kernelworks_build.job import Workplace
from kernelworks_build.progress import Advance, SilentProgress
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.tree import digest_of

KILLED = "g++: fatal error: Killed signal terminated program cc1plus\n"
SECONDS = {"a": 1.0, "b": 3.0, "c": 2.0}


class Listener(SilentProgress):
    """Hears how long each compile takes, as far as that is known."""

    def __init__(self) -> None:
        self.seconds: list[float | None] = []

    @contextmanager
    def task(self, label: str, total: int | None, unit: str, seconds: float | None = None) -> Iterator[Advance]:
        self.seconds.append(seconds)
        with super().task(label, total, unit) as advance:
            yield advance


@dataclass
class Machine:
    """An executor that compiles by writing files; `too_large` units end for want of memory beside others."""

    too_large: frozenset[str] = frozenset()
    runs: list[tuple[str, str]] = field(default_factory=list)
    made: list[list[str]] = field(default_factory=list)
    listener: Listener = field(default_factory=Listener)
    name: str = "machine"
    hermetic: bool = True

    def check(self) -> None:
        """It always works."""

    def run(
        self, action: Action, build_dir: Path, log: Path, on_line: Callable[[str], None] | None = None
    ) -> ActionResult:
        del action, on_line
        jobs = (build_dir / "jobs").read_text().strip()
        self.runs.append((jobs, (build_dir / "order").read_text().replace("\n", "")))
        missing = [name for name in SECONDS if not (build_dir / f"{name}.o").exists()]
        killed = self.too_large & set(missing) if jobs != "1" else set()
        for name in missing:
            (build_dir / f"{name}.o").write_text("half" if name in killed else "whole")
            (build_dir / f"{name}.o.d").write_text(f"{name}.o: /src/{name}.cpp\n")
        whole = [name for name in missing if name not in killed]
        self.made.append(whole)
        with (build_dir / ".ninja_log").open("a") as file:
            file.writelines(f"0\t1\t1\t{name}.o\tffff\n" for name in whole)
        log.write_text(KILLED if killed else "")
        used = tuple(JobUsage(f"sh -c g++ -o {name}.o -MD", SECONDS[name], 100) for name in whole)
        return ActionResult(1 if killed else 0, False, False, log, build_dir, 6.0, 100, self.name, True, (), used)


@pytest.fixture
def compile_with(tmp_path: Path) -> Callable[[Machine, Mapping[str, str]], Path]:
    """Runs three units with the texts given on a machine; gives the build folder."""

    def run(machine: Machine, texts: Mapping[str, str]) -> Path:
        work = tmp_path / f"work-{len(list(tmp_path.glob('work-*')))}"
        (work / "src").mkdir(parents=True)
        for name in SECONDS:
            (work / "src" / f"{name}.cpp").write_text(texts.get(name, name))
        unit = {"kind": "host", "source": "/src/{}.cpp", "object": "{}.o", "depfile": "{}.o.d"}
        entries = [
            {**{key: value.format(name) for key, value in unit.items()}, "command": ["g++", f"/src/{name}.cpp"]}
            for name in SECONDS
        ]
        spec = CompileSpec("k.so", {"units": entries}, unit_memory=1 << 20)
        source = Tree(digest_of(work / "src"), work / "src")
        action = Action(("sh",), (), (Mount("/src", source),), ("k.so",), Limits(1 << 30, 60))
        place = Workplace(tmp_path / "cache", LockSet({}), machine, machine.listener, tmp_path / "logs", jobs=2)
        return compile_units(action, spec, place, work, "compile").result.build_dir

    return run


def test_what_memory_ended_is_compiled_again_alone_and_nothing_half_made_is_taken(
    compile_with: Callable[[Machine, Mapping[str, str]], Path],
) -> None:
    machine = Machine(too_large=frozenset("b"))
    build_dir = compile_with(machine, {})
    assert [jobs for jobs, _ in machine.runs] == ["2", "1"]
    assert machine.made == [["a", "c"], ["b"]]
    assert (build_dir / "b.o").read_text() == "whole"


def test_what_took_longest_before_starts_first(compile_with: Callable[[Machine, Mapping[str, str]], Path]) -> None:
    machine = Machine()
    compile_with(machine, {})
    compile_with(machine, {"a": "edited", "b": "edited", "c": "edited"})
    assert [order for _, order in machine.runs] == ["012", "120"]


def test_how_long_a_compile_takes_is_told_where_every_unit_was_compiled_before(
    compile_with: Callable[[Machine, Mapping[str, str]], Path],
) -> None:
    machine = Machine()
    compile_with(machine, {})
    compile_with(machine, {"a": "edited", "b": "edited"})
    assert machine.listener.seconds == [None, 3.0]  # two at once


def test_after_memory_ran_out_the_rest_is_told(compile_with: Callable[[Machine, Mapping[str, str]], Path]) -> None:
    compile_with(Machine(), {})
    machine = Machine(too_large=frozenset("a"))
    compile_with(machine, {"a": "edited", "b": "edited"})
    assert machine.listener.seconds == [3.0, 1.0]


def test_a_damaged_entry_costs_time_and_nothing_else(
    compile_with: Callable[[Machine, Mapping[str, str]], Path], tmp_path: Path
) -> None:
    machine = Machine()
    compile_with(machine, {})
    for file in (tmp_path / "cache" / "units").glob("*/*.json"):
        file.write_text("{")
    build_dir = compile_with(machine, {})
    assert machine.made == [["a", "b", "c"]] * 2
    assert (build_dir / "a.o").read_text() == "whole"


def test_what_is_unchanged_is_not_compiled(compile_with: Callable[[Machine, Mapping[str, str]], Path]) -> None:
    machine = Machine()
    compile_with(machine, {})
    compile_with(machine, {"c": "edited"})
    assert machine.made == [["a", "b", "c"], ["c"]]
