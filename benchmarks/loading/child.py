"""One measurement, in the process that runs this file: `python child.py LOADER TRIAL`, JSON on stdout.

LOADER is the module that is measured; both have the same names. What a trial needs comes in the variables BENCH_*.
A trial prepares, and returns what is timed. Nothing but the standard library is imported before the clock starts.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Step = Callable[[], object]

_LAYERS = 500
_VARIANTS = 10_000
_NAMES = tuple(
    f"{framework}-{backend}-x86_64-linux"
    for framework in ("torch212-cxx11", "torch213-cxx11", "torch-stable-abi211")
    for backend in ("cpu", "cu126", "cu130", "rocm71")
)


def bare(_: str) -> Step:
    return lambda: None


def imported(loader: str) -> Step:
    """The module and all that its `get_kernel` needs, which one of both imports when it is asked for."""
    return lambda: importlib.import_module(loader).get_kernel


def named(loader: str) -> Step:
    return lambda: importlib.import_module(loader)


def local(loader: str) -> Step:
    return partial(_with_torch(loader).get_local_kernel, Path(os.environ["BENCH_FOLDER"]))


def published(loader: str) -> Step:
    return _get_kernel(_with_torch(loader))


def published_without_torch(loader: str) -> Step:
    return _get_kernel(importlib.import_module(loader))


def repeated(loader: str) -> Step:
    """Twenty calls, after the first."""
    get = published(loader)
    get()
    return lambda: [get() for _ in range(20)]


def pickled(loader: str) -> Step:
    """Writes the pickle that `unpickled` reads."""
    get = published(loader)

    def step() -> None:
        module: Any = get()
        Path(os.environ["BENCH_PICKLE"]).write_bytes(pickle.dumps(module.twice))

    return step


def unpickled(loader: str) -> Step:
    _with_torch(loader)
    data = Path(os.environ["BENCH_PICKLE"]).read_bytes()
    return lambda: pickle.loads(data)  # noqa: S301  # our own bytes


def kernelized(loader: str) -> Step:
    """A model of 500 layers, of a kernel that is loaded; its mapping holds one name."""
    library = _with_torch(loader)
    nn = importlib.import_module("torch").nn

    @library.use_kernel_forward_from_hub("SiluAndMul")
    class Layer(nn.Module):  # type: ignore[misc,name-defined]  # of a module that is imported here
        def forward(self, x: Any) -> Any:
            return x

    repository = library.LocalLayerRepository(Path(os.environ["BENCH_FOLDER"]), layer_name="SiluAndMul")
    library.register_kernel_mapping({"SiluAndMul": {"cpu": repository}})
    kernelize = partial(library.kernelize, mode=library.Mode.INFERENCE, device="cpu")
    kernelize(Layer())
    return partial(kernelize, nn.Sequential(*(Layer() for _ in range(_LAYERS))))


def resolved(loader: str) -> Step:
    """The choice among ten thousand variants, of which a third fits."""
    library = _with_torch(loader)
    names = (_NAMES * (_VARIANTS // len(_NAMES) + 1))[:_VARIANTS]
    if library.__name__ == "kernels":
        variants = importlib.import_module("kernels.variants")
        return partial(variants.resolve_variants, [variants.parse_variant(name) for name in names])
    outlined = importlib.import_module("kernelworks.model.foreign").outlined
    host = importlib.import_module("kernelworks.host").detect()
    weigh = importlib.import_module("kernelworks.resolve").weigh
    return partial(weigh, [outlined(name, ()) for name in names], host)


def hashed(loader: str) -> Step:
    """Every file of a folder."""
    folder = Path(os.environ["BENCH_FOLDER"])
    if loader == "hashlib":
        data = b"".join(path.read_bytes() for path in folder.iterdir())  # its best case: all of it is in memory
        return lambda: importlib.import_module("hashlib").sha256(data).digest()
    if loader == "kernels":
        rust = importlib.import_module("kernels._rust")
        return partial(rust.Digest.hash_variant, rust.DigestAlgorithm.SHA256, folder)
    digest, verify = (importlib.import_module(f"kernelworks.{name}") for name in ("model.digest", "verify"))
    return partial(verify.folder_faults, folder, digest.list_tree(folder))


def _with_torch(loader: str) -> Any:
    """The loader, as ready as in a process that has used torch: neither import is timed."""
    importlib.import_module("torch")
    library = importlib.import_module(loader)
    return library.get_kernel and library


def _get_kernel(library: Any) -> Step:
    revision = os.environ.get("BENCH_REVISION")
    wanted: dict[str, Any] = {"revision": revision} if revision else {"version": 1}
    return partial(library.get_kernel, os.environ["BENCH_REPO"], trust_remote_code=True, **wanted)


def main() -> None:
    """Print CPU and wall seconds of the step, and the most memory (bytes) of the process; or how it failed."""
    loader, trial = sys.argv[1:]
    begun, cpu = time.perf_counter(), time.process_time()
    failure = None
    try:
        step = globals()[trial](loader)
        begun, cpu = time.perf_counter(), time.process_time()
        step()
    except Exception as error:  # noqa: BLE001  # how it fails is a result
        failure = type(error).__name__
    facts = {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu, "failure": failure}
    status = Path("/proc/self/status").read_text(encoding="ascii")  # the figure of getrusage outlives exec
    facts["memory"] = int(status.partition("VmHWM:")[2].split()[0]) << 10
    sys.stdout.write(json.dumps(facts))


if __name__ == "__main__":
    main()
