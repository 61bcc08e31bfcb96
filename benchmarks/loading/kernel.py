"""The kernels that are loaded: whole revisions of pure Python, made in a moment; and how a server gets one."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.serving.client import Client
from benchmarks.serving.processes import Program

from kernelworks.model.decode import parse_json
from kernelworks.model.digest import FileEntry, hash_bytes, hash_file
from kernelworks.model.foreign import described
from kernelworks.model.index import INDEX_NAME, Index, Source
from kernelworks.model.metadata import METADATA_NAME, Metadata

__all__ = ["FOLDER", "FUNCTION", "LAYER", "REPO", "make", "publish"]

REPO = "admin/bench"
FOLDER = "torch-cpu"
FUNCTION = {
    "__init__.py": b"from .functions import twice\n",
    "functions.py": b"def twice(x):\n    return 2 * x\n",
}
LAYER = {
    "__init__.py": b"from . import layers\n",
    "layers.py": b"""from torch import nn


class SiluAndMul(nn.Module):
    has_backward = False

    def forward(self, x):
        d = x.shape[-1] // 2
        return nn.functional.silu(x[..., :d]) * x[..., d:]
""",
}

_NO_DIGEST = "0" * 64


def make(root: Path, sources: Mapping[str, bytes]) -> Path:
    """The folder of a revision, as `kernel-build build` makes it, with one variant of these files."""
    variant_folder = root / "build" / FOLDER
    variant_folder.mkdir(parents=True)
    for path, data in sources.items():
        (variant_folder / path).write_bytes(data)
    files = tuple(sorted(FileEntry(path, len(data), hash_bytes(data)) for path, data in sources.items()))
    metadata = Metadata("_bench_cpu_1a2b3c4", "bench", 1, "Apache-2.0", "cpu", (), (), files, "0").to_bytes()
    (variant_folder / METADATA_NAME).write_bytes(metadata)
    wheel = root / "wheels" / "bench-1-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in sources.items():
            archive.writestr(zipfile.ZipInfo(f"bench/{path}"), data)
    variant = replace(
        described(FOLDER, parse_json(metadata, METADATA_NAME), files),
        wheel=FileEntry(f"wheels/{wheel.name}", *hash_file(wheel)),
        package="bench",
        lock=_NO_DIGEST,
    )
    index = Index("bench", 1, "Apache-2.0", Source(_NO_DIGEST), "benchmarks 0", (variant,))
    (root / INDEX_NAME).write_bytes(index.to_bytes())
    return root


def publish(revision: Path, server: Program) -> str:
    """The commit of version 1 of `REPO` that holds this revision."""
    client = Client(server.port, server.token, REPO)
    client.create()
    client.branch("v1")
    files = [path for path in sorted(revision.rglob("*")) if path.is_file()]
    lines = [
        (client.upload if path.suffix == ".whl" else client.inline)(
            path.relative_to(revision).as_posix(), path.read_bytes()
        )
        for path in files
    ]
    return client.commit(*lines, branch="v1")
