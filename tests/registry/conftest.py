"""Small real kernels in a real folder registry: pure-Python wheels with an index, published byte by byte."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernelworks import api, load
from kernelworks import host as host_module
from kernelworks.backends.spec import HostBackend
from kernelworks.host import HostEnv, Libc
from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.index import Index, Source
from kernelworks.model.variant import (
    BackendFacts,
    DeviceArchs,
    FrameworkFacts,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks.transport import directory_layout as layout
from kernelworks.transport.repo_id import version_ref

HOST = HostEnv(
    python=sys.version_info[:2],
    implementation="cpython",
    free_threaded=False,
    torch="2.13.0+cpu",
    cxx11=True,
    backends=(HostBackend("cpu"),),
    cpu="x86_64",
    os="linux",
    libc=Libc("glibc", (2, 36)),
)

VARIANT = Variant(
    name="torch-stable-abi211-cpu-x86_64-linux",
    id="_demo_cpu_1a2b3c4d",
    framework=FrameworkFacts("torch-stable-abi", (2, 11)),
    backend=BackendFacts("cpu", None, DeviceArchs()),
    python_abi=PythonAbi("abi3", (3, 9)),
    platform=Platform("x86_64", "linux", (2, 28)),
    libraries=("libc.so.6",),
    torch_symbols=TorchSymbols(("aoti_torch_abi_version",)),
    python_depends=(),
    wheel=FileEntry("wheels/demo-1-py3-none-any.whl", 0, "0" * 64),
    package="demo",
    files=(),
    lock="0" * 64,
    hermetic=True,
)

SOURCES = {
    "__init__.py": b"from .layers import twice\nfrom . import layers\n",
    "layers.py": b"def twice(x):\n    return 2 * x\n",
    "data/table.txt": b"1 2 3\n",
}


@dataclasses.dataclass(frozen=True)
class Published:
    """One revision on disk."""

    commit: str
    folder: Path
    variants: tuple[Variant, ...]


def wheel_bytes(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def packed(
    sources: Mapping[str, bytes] = SOURCES, *, extra: Mapping[str, bytes] | None = None, **facts: Any
) -> tuple[Variant, bytes]:
    """A variant with the given facts and its wheel; `extra` members are not in the index."""
    base = dataclasses.replace(VARIANT, **facts)
    members = {f"{base.package}/{path}": data for path, data in sources.items()}
    wheel = wheel_bytes({**members, "demo-1.dist-info/METADATA": base.name.encode(), **(extra or {})})
    variant = dataclasses.replace(
        base,
        files=tuple(sorted(FileEntry(path, len(data), hash_bytes(data)) for path, data in sources.items())),
        wheel=FileEntry(f"wheels/{base.name}.whl", len(wheel), hash_bytes(wheel)),
    )
    return variant, wheel


def write_revision(folder: Path, name: str, version: int, kernels: list[tuple[Variant, bytes]]) -> str:
    """Write one revision into `folder` and return its commit."""
    for variant, wheel in kernels:
        path = folder / variant.wheel.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wheel)
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            for entry in variant.files:
                target = folder / layout.BUILD / variant.name / entry.path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(f"{variant.package}/{entry.path}"))
    variants = tuple(variant for variant, _ in kernels)
    data = Index(name, version, "Apache-2.0", Source("0" * 64), "test 0", variants).to_bytes()
    (folder / "kernel.json").write_bytes(data)
    return hash_bytes(data)


class FolderRegistry:
    """A folder registry that tests publish into."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def publish(self, repo_id: str, version: int, *kernels: tuple[Variant, bytes]) -> Published:
        revisions = layout.revision_folder(self.root, repo_id, "x").parent
        staged = revisions.parent / f"{layout.INCOMING}{version}"
        staged.mkdir(parents=True)
        commit = write_revision(staged, repo_id.split("/")[1], version, list(kernels))
        revisions.mkdir(exist_ok=True)
        folder = staged.rename(revisions / commit)
        ref = layout.ref_path(self.root, repo_id, version_ref(version))
        ref.parent.mkdir(exist_ok=True)
        ref.write_text(f"{commit}\n")
        return Published(commit, folder, tuple(variant for variant, _ in kernels))


class Processes:
    """Starts Python programs with this test's environment and `HOST` in the place of detection."""

    def start(self, program: str, host: HostEnv = HOST) -> subprocess.Popen[str]:
        prelude = (
            "import kernelworks.host\n"
            "from kernelworks.host import HostEnv, Libc\n"
            "from kernelworks.backends.spec import HostBackend\n"
            f"kernelworks.host.detect = lambda: {host!r}\n"
        )
        return subprocess.Popen(
            [sys.executable, "-c", prelude + program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test starts with an empty cache and ends with no kernel loaded, as a process of its own would."""
    for name in (
        "HF_ENDPOINT",
        "HF_HUB_OFFLINE",
        "KERNELWORKS_LOCK",
        "KERNELWORKS_OFFLINE",
        "KERNELWORKS_POLICY",
        "KERNELWORKS_REGISTRY",
        "LOCAL_KERNELS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KERNELWORKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield
    api._modules.clear()
    for name in list(load._kernels):
        load._forget(name)


@pytest.fixture
def this_process(monkeypatch: pytest.MonkeyPatch) -> Callable[..., HostEnv]:
    """Make detection give `HOST` with changes; torch is not imported."""

    def become(**changes: Any) -> HostEnv:
        host = dataclasses.replace(HOST, **changes)
        monkeypatch.setattr(host_module, "detect", lambda: host)
        return host

    become()
    return become


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, this_process: Callable[..., HostEnv]) -> FolderRegistry:
    """An empty folder registry that KERNELWORKS_REGISTRY names, in a process that is `HOST`."""
    this_process()
    made = FolderRegistry(tmp_path / "registry")
    monkeypatch.setenv("KERNELWORKS_REGISTRY", str(made.root))
    return made


@pytest.fixture
def host() -> HostEnv:
    """A Linux machine with glibc 2.36 and the CPU build of torch 2.13."""
    return HOST


@pytest.fixture
def variant() -> Variant:
    """A stable-ABI CPU variant that fits `host`."""
    return VARIANT


@pytest.fixture
def sources() -> dict[str, bytes]:
    """The files of a small kernel."""
    return dict(SOURCES)


@pytest.fixture
def pack() -> Callable[..., tuple[Variant, bytes]]:
    return packed


@pytest.fixture
def make_wheel() -> Callable[[Mapping[str, bytes]], bytes]:
    return wheel_bytes


@pytest.fixture
def make_revision() -> Callable[..., str]:
    return write_revision


@pytest.fixture
def processes() -> Processes:
    return Processes()
