"""The CPU kernel of the `stable_abi` template against eager torch and `torch.compile`, as ratios.

All three run interleaved in one process: a round times each of them once, in rotating order, and gives one
ratio per rival; the median over the rounds is reported. Above 1, the kernel is that much faster.

    python benchmarks/cpu_kernel.py demo/silu-and-mul --registry dist-registry --threads 2
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median

import torch
from torch.nn import functional

import kernelworks

Function = Callable[[torch.Tensor], torch.Tensor]
Step = Callable[[], object]

SHAPES = ((1, 28672), (64, 8192), (512, 22016))  # rows, 2 * d: a decoded token, a small batch, a long prompt
DTYPES = ("float32", "bfloat16", "float16")
ROUND_SECONDS = 0.02


@dataclass(frozen=True)
class Case:
    """One measurement: what is run on what."""

    direction: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """Median microseconds of one call by name, and how often faster the kernel is than each rival."""

    case: Case
    microseconds: dict[str, float]
    ratios: dict[str, float]


def eager(x: torch.Tensor) -> torch.Tensor:
    d = x.shape[-1] // 2
    return functional.silu(x[..., :d]) * x[..., d:]


def inference(function: Function, x: torch.Tensor) -> Step:
    def step() -> None:
        with torch.inference_mode():
            function(x)

    return step


def training(function: Function, x: torch.Tensor) -> Step:
    x = x.clone().requires_grad_()
    grad = torch.randn_like(eager(x.detach()))
    return lambda: torch.autograd.grad(function(x), x, grad)


DIRECTIONS = {"forward": inference, "forward+backward": training}


def seconds(step: Step, repeats: int) -> float:
    """Wall seconds of one call, averaged over `repeats`."""
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) / repeats


def measure(case: Case, functions: dict[str, Function], rounds: int) -> Result:
    x = torch.randn(case.shape, dtype=getattr(torch, case.dtype))
    steps = {name: DIRECTIONS[case.direction](function, x) for name, function in functions.items()}
    warm = {name: min(seconds(step, 1) for _ in range(3)) for name, step in steps.items()}
    repeats = max(1, int(ROUND_SECONDS / max(warm.values())))
    order = list(steps)
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        order.append(order.pop(0))
        for name in order:
            taken[name].append(seconds(steps[name], repeats))
    ours = taken["kernel"]
    ratios = {
        name: median(theirs / own for theirs, own in zip(times, ours, strict=True))
        for name, times in taken.items()
        if name != "kernel"
    }
    return Result(case, {name: median(times) * 1e6 for name, times in taken.items()}, ratios)


@functools.cache
def why_not_compiled() -> str | None:
    """Why `torch.compile` does not work here (it needs a C++ compiler), or None where it does."""
    try:
        torch.compile(eager)(torch.ones(2, 4))
    except Exception as error:  # noqa: BLE001  # whatever fails in there, it is the answer
        return str(error).strip().partition("\n")[0]
    return None


def candidates(kernel: Function) -> dict[str, Function]:
    """The kernel and its rivals; `torch.compile` starts afresh, to specialise each case to its shape."""
    found = {"kernel": kernel, "eager": eager}
    if why_not_compiled() is None:
        torch.compiler.reset()
        found["compile"] = torch.compile(eager, fullgraph=True, dynamic=False)
    return found


def table(results: list[Result]) -> str:
    """One line per case: its facts, the kernel's microseconds, the ratio to each rival."""
    rivals = [name for name in results[0].microseconds if name != "kernel"]
    rows = [["direction", "dtype", "shape", "kernel", *rivals]]
    for result in results:
        case = result.case
        rows.append([case.direction, case.dtype, "x".join(map(str, case.shape))])
        rows[-1].append(f"{result.microseconds['kernel']:.1f} us")
        rows[-1].extend(f"{result.ratios[name]:.2f}x" for name in rivals)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("repo_id", help="a kernel made from the `stable_abi` template, as org/name")
    parser.add_argument("--registry", help="folder or URL; default: KERNELWORKS_REGISTRY")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads of torch")
    parser.add_argument("--rounds", type=int, default=15, help="rounds per case")
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="only these dtypes")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.registry:
        os.environ["KERNELWORKS_REGISTRY"] = options.registry
    torch.set_num_threads(options.threads)
    kernel = kernelworks.get_kernel(options.repo_id, backend="cpu", trust_remote_code=True).silu_and_mul
    if reason := why_not_compiled():
        print(f"torch.compile is left out: {reason}", file=sys.stderr)
    results = []
    for direction in DIRECTIONS:
        for dtype in options.dtype or DTYPES:
            for shape in SHAPES:
                case = Case(direction, dtype, shape)
                print(f"measuring {direction} {dtype} {shape}", file=sys.stderr)
                results.append(measure(case, candidates(kernel), options.rounds))
    if options.json:
        facts = {"torch": torch.__version__, "threads": options.threads, "rounds": options.rounds}
        print(json.dumps({**facts, "results": [asdict(result) for result in results]}, indent=2))
    else:
        print(table(results))


if __name__ == "__main__":
    main()
