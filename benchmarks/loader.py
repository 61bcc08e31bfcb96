"""What loading a kernel costs, side by side with `kernels` 0.17.2, each measurement in a fresh process.

    python -m benchmarks.loader [ROOM...] [--rounds N] [--json]

Both loaders get the same kernels and the same server; a ratio above 1 says how many times more the other takes. CPU
time is told where work is compared, for this machine may have other users, and time by the clock where waiting is.
Loads are timed in processes that have imported torch and the loader before. Both have their bytecode, as pip leaves it.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.loading import kernel
from benchmarks.loading.trials import HEAD, OURS, STOCK, Row, Taken, child, in_turns, line, taken
from benchmarks.serving import processes

import kernelworks

_PROCESSES = 64
_LARGE = 200_000_000  # bytes
_MS, _US, _MB = 1e3, 1e6, 1e-6
_REQUESTS = re.compile(r'^kernel_registry_requests_total\{.*route="(?!/metrics)[^"]*".*\} (\d+)$', re.MULTILINE)
_DOWNLOADS = re.compile(r"^kernel_registry_downloads_total (\d+)$", re.MULTILINE)

Envs = Mapping[str, Mapping[str, object]]


def imports(_: Path, rounds: int) -> Iterator[Row]:
    """Over a Python that imports nothing."""
    nothing: Envs = {OURS: {}, STOCK: {}}
    bare, named, whole = (in_turns(trial, nothing, rounds) for trial in ("bare", "named", "imported"))
    yield _row("import, CPU", "ms", _less(named, bare), "cpu", _MS, goal=30)
    yield _row("import with get_kernel, CPU", "ms", _less(whole, bare), "cpu", _MS, goal=30)
    yield _row("import with get_kernel, memory", "MB", _less(whole, bare), "memory", _MB)


def folders(scratch: Path, rounds: int) -> Iterator[Row]:
    """A folder on this machine; nothing has been proved before the first load of it."""
    folder = kernel.make(scratch / "folder", kernel.FUNCTION)
    envs = _envs(scratch / "local", BENCH_FOLDER=folder)
    cold = [in_turns("local", _envs(scratch / f"local{number}", BENCH_FOLDER=folder), 1) for number in range(rounds)]
    yield _row("local load, first on this machine, CPU", "ms", _best(cold), "cpu", _MS)
    yield _row("local load, new process, CPU", "ms", in_turns("local", envs, rounds + 1), "cpu", _MS)


def servers(scratch: Path, rounds: int) -> Iterator[Row]:
    """`kernel-registry` on loopback, and then no more."""
    revision = kernel.make(scratch / "revision", kernel.FUNCTION)
    with processes.registry(scratch / "server") as server:
        commit = kernel.publish(revision, server)
        at = partial(_envs, BENCH_REPO=kernel.REPO, KERNELWORKS_REGISTRY=server.url, HF_ENDPOINT=server.url)
        fresh = (at(scratch / f"cold{number}") for number in range(rounds))
        cold = [_asked(server, "published", env) for env in fresh]
        yield Row("cold load, requests", "", *_pair({loader: cold[0][loader][0] for loader in (OURS, STOCK)}), goal=3)
        yield _row("cold load", "ms", _best([{name: one[1] for name, one in run.items()} for run in cold]), "wall", _MS)
        versioned = at(scratch / "cold0")
        pinned = {loader: {**env, "BENCH_REVISION": commit} for loader, env in versioned.items()}
        for name, envs, goal in (("by version", versioned, None), ("pinned", pinned, 0.0)):
            said = _asked(server, "published", envs)
            yield Row(f"new process, {name}, requests", "", *_pair({one: said[one][0] for one in said}), goal=goal)
            yield _row(f"new process, {name}", "ms", in_turns("published", envs, rounds), "wall", _MS)
        yield _row("same process, one call", "us", in_turns("repeated", versioned, rounds), "cpu", _US / 20, goal=20)
        yield from _pickles(scratch, versioned, rounds)
    down = in_turns("published", versioned, rounds)
    yield _row("network down, cached", "ms", down, "wall", _MS, goal=50)
    yield _row("network down, cached, CPU", "ms", down, "cpu", _MS)


def crowds(scratch: Path, _: int) -> Iterator[Row]:
    """Many processes that start at once on an empty cache, without torch: it would take most of the time."""
    revision = kernel.make(scratch / "crowd", kernel.FUNCTION)
    with processes.registry(scratch / "crowded") as server:
        kernel.publish(revision, server)
        env = _envs(scratch / "crowd-cache", BENCH_REPO=kernel.REPO, KERNELWORKS_REGISTRY=server.url)[OURS]
        own = Path(__file__).parents[1] / "registry"
        python = Path(sysconfig.get_config_var("BINDIR"), Path(sys.executable).name)
        start = partial(child, OURS, "published_without_torch", {**env, "PYTHONPATH": own}, python=str(python))
        said = [taken(one) for one in [start() for _ in range(_PROCESSES)]]
        failed = sum(one.failure is not None for one in said)
        yield Row(f"{_PROCESSES} processes, cold cache: downloads", "", _counted(server, _DOWNLOADS), goal=1)
        yield Row(f"{_PROCESSES} processes, cold cache: failures", "", float(failed), goal=0)


def work(scratch: Path, rounds: int) -> Iterator[Row]:
    """Nothing but the processor."""
    layer = kernel.make(scratch / "layer", kernel.LAYER)
    envs = _envs(scratch / "work", BENCH_FOLDER=layer)
    yield _row("choice among 10,000 variants, CPU", "ms", in_turns("resolved", envs, rounds), "cpu", _MS)
    yield _row("kernelize 500 layers, CPU", "ms", in_turns("kernelized", envs, rounds), "cpu", _MS, goal=10)
    large = scratch / "large"
    large.mkdir()
    (large / "large.bin").write_bytes(os.urandom(_LARGE))
    loaders = (OURS, STOCK, "hashlib")
    said = in_turns("hashed", {loader: {"BENCH_FOLDER": large} for loader in loaders}, rounds, loaders)
    size = _LARGE * 1e-9
    yield Row("digest of 200 MB, CPU", "s/GB", *_pair({loader: one.cpu / size for loader, one in said.items()}))
    yield Row("the same against hashlib", "times", said[OURS].cpu / said["hashlib"].cpu, goal=1.2)
    yield _row("digest of 200 MB, most memory", "MB", said, "memory", _MB)


def _pickles(scratch: Path, envs: Envs, rounds: int) -> Iterator[Row]:
    with_files = {loader: {**env, "BENCH_PICKLE": scratch / f"{loader}.pickle"} for loader, env in envs.items()}
    in_turns("pickled", with_files, 1)
    yield _row("pickle of a function comes back", "ms", in_turns("unpickled", with_files, rounds), "wall", _MS)


def _envs(cache: Path, **facts: object) -> Envs:
    """Loader -> the environment in which it has the cache `cache` for itself."""
    mine = {"KERNELWORKS_CACHE": cache / "kernelworks", "XDG_CONFIG_HOME": cache / "config", "LOCAL_KERNELS": ""}
    both = {"HF_HOME": cache / "hub", "KERNELS_CACHE": cache / "kernels", **facts}
    # bytecode that it leaves in the kernel's folder would be taken for an attack by ours
    return {OURS: {**both, **mine}, STOCK: {**both, "PYTHONDONTWRITEBYTECODE": 1}}


def _asked(server: processes.Program, trial: str, envs: Envs) -> dict[str, tuple[float, Taken]]:
    """Loader -> (requests that it made, what it took)."""
    said = {}
    for loader, env in envs.items():
        before = _counted(server, _REQUESTS)
        one = taken(child(loader, trial, env))
        said[loader] = _counted(server, _REQUESTS) - before, one
    return said


def _counted(server: processes.Program, pattern: re.Pattern[str]) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:  # noqa: S310  # of our own
        return float(sum(map(int, pattern.findall(answer.read().decode()))))


def _less(said: Mapping[str, Taken], bare: Mapping[str, Taken]) -> dict[str, Taken]:
    return {
        loader: Taken(one.wall - bare[loader].wall, one.cpu - bare[loader].cpu, one.memory - bare[loader].memory)
        for loader, one in said.items()
    }


def _best(runs: list[dict[str, Taken]]) -> dict[str, Taken]:
    """The runs that cannot be repeated with the same cache: the quickest of each loader."""
    return {loader: min((run[loader] for run in runs), key=lambda one: one.cpu) for loader in runs[0]}


def _row(name: str, unit: str, said: Mapping[str, Taken], fact: str, factor: float, goal: float | None = None) -> Row:
    return Row(name, unit, *_pair({loader: _value(one, fact, factor) for loader, one in said.items()}), goal)


def _value(one: Taken, fact: str, factor: float) -> float | str:
    value: float = getattr(one, fact) * factor
    return f"{one.failure}, {value:,.1f}" if one.failure else value


def _pair(values: Mapping[str, float | str]) -> tuple[float | str, float | str | None]:
    return values[OURS], values.get(STOCK)


_ROOMS = {room.__name__: room for room in (imports, folders, servers, crowds, work)}


def main() -> None:
    """Print the rows as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(_ROOMS)}; default: all")
    parser.add_argument("--rounds", type=int, default=5, help="how often each measurement is repeated")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    options = parser.parse_args()
    compileall.compile_dir(Path(kernelworks.__file__).parent, quiet=1)
    rows: list[Row] = []
    shown = sys.stderr if options.json else sys.stdout  # each row when it is known: all of them take minutes
    print(HEAD, file=shown)
    with TemporaryDirectory() as scratch:
        for room in options.rooms or _ROOMS:
            for row in _ROOMS[room](Path(scratch), options.rounds):
                print(line(row), file=shown, flush=True)
                rows.append(row)
    if options.json:
        print(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=2))


if __name__ == "__main__":
    main()
