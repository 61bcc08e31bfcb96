"""What the tests of whole builds share: the program, a kernel that was built once, the toolchain, an old system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.digest import FileEntry, hash_file, list_tree
from kernelworks.model.index import Index, Source
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi, TorchSymbols, Variant
from kernelworks.settings import cache_root
from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.errors import SandboxError, ToolchainError
from kernelworks_build.progress import SilentProgress
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.toolchain import deb
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact, LockSet
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.sysroot import ROOT
from kernelworks_build.toolchain.tree import write

PROGRAM = Path(sys.executable).with_name("kernel-build")
REPO_ID = "demo/silu-and-mul"
PLACES = {"host": "/usr", "sysroot": ROOT, "torch-2.11.0": "/opt/torch"}
OLD_PACKAGES = {
    ("libc6", "2.31-13+deb11u11", "pool/main/g/glibc/libc6_2.31-13+deb11u11_amd64.deb", 2822708): (
        "05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282"
    ),
    ("libgcc-s1", "10.2.1-6", "pool/main/g/gcc-10/libgcc-s1_10.2.1-6_amd64.deb", 41400): (
        "e478f2709d8474165bb664de42e16950c391f30eaa55bc9b3573281d83a29daf"
    ),
    ("libstdc++6", "10.2.1-6", "pool/main/g/gcc-10/libstdc++6_10.2.1-6_amd64.deb", 492540): (
        "5c155c58935870bf3b4bfe769116841c0d286a74f59eccfd5645693ac23f06b1"
    ),
}
"""Name, version, path and size of the packages that an old system has, and their SHA-256."""


@dataclass(frozen=True)
class Done:
    """What a run of `kernel-build` gave."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)


def run(*arguments: str | Path, by: Sequence[str] = (), env: Mapping[str, str] | None = None, **options: Any) -> Done:
    """Run the program as a user does; `by` is a program that runs it, with arguments."""
    done = subprocess.run(
        [*by, str(PROGRAM), *map(str, arguments)],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def kernel_build() -> Callable[..., Done]:
    """Runs `kernel-build ARGUMENTS...`; `env` is added to the environment."""
    return run


@pytest.fixture(scope="session")
def bubblewrap() -> Bwrap:
    """The executor; skips where no sandbox can be made, with the reason."""
    executor = Bwrap()
    try:
        executor.check()
    except SandboxError as error:
        pytest.skip(str(error))
    return executor


@pytest.fixture(scope="session")
def fetcher() -> Fetcher:
    return Fetcher(cache_root(), Origins(), SilentProgress())


@pytest.fixture(scope="session")
def toolchain(bubblewrap: Bwrap, fetcher: Fetcher) -> Callable[..., dict[str, Tree]]:
    """Gives the trees of the shipped locks NAMES..., by name."""

    def trees(*names: str) -> dict[str, Tree]:
        return materialise(
            names,
            locks=LockSet.load(),
            store=TreeStore(cache_root() / "trees"),
            fetcher=fetcher,
            executor=bubblewrap,
            progress=SilentProgress(),
        )

    return trees


@pytest.fixture(scope="session")
def from_the_archive() -> Callable[[], AbstractContextManager[None]]:
    """Gives contexts that end in a skip where the archive has dropped a package by now, and say which."""

    @contextmanager
    def skipping() -> Iterator[None]:
        try:
            yield
        except ToolchainError as error:
            if "at none of its origins" in error.message:
                pytest.skip(f"the archive has moved on: {error.message}")
            raise

    return skipping


@pytest.fixture(scope="session")
def unpacked_debs(
    fetcher: Fetcher,
    from_the_archive: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Iterable[Artifact]], Path]:
    """Gives a folder of the libraries in Debian's packages ARTIFACTS, unpacked together."""

    def unpacked(wanted: Iterable[Artifact]) -> Path:
        with from_the_archive():
            debs = fetcher.fetch(wanted)
        root = tmp_path_factory.mktemp("debs")
        for artifact, path in debs.items():
            write(root, deb.entries(path), artifact.file)
        return root / "lib" / "x86_64-linux-gnu"

    return unpacked


@pytest.fixture(scope="session")
def rocm(
    toolchain: Callable[..., dict[str, Tree]], from_the_archive: Callable[[], AbstractContextManager[None]]
) -> Tree:
    """The tree of ROCm."""
    with from_the_archive():
        return toolchain("rocm-7.2")["rocm-7.2"]


@pytest.fixture(autouse=True)
def _rocm(request: pytest.FixtureRequest) -> None:
    """What compiles HIP code needs that tree."""
    if request.node.get_closest_marker("rocm"):
        request.getfixturevalue("rocm")


@pytest.fixture(scope="session")
def compile_in(bubblewrap: Bwrap) -> Callable[..., str]:
    """Runs ARGV in the sandbox, with FOLDER at /build, TREES at their places and `source` at /src; gives its output."""

    def run_in(folder: Path, trees: Mapping[str, Tree], *argv: str, source: Path | None = None) -> str:
        mounts = [Mount(PLACES[name], tree) for name, tree in trees.items()]
        if source:
            mounts.append(Mount("/src", Tree("0" * 64, source)))
        action = Action(argv, (("LC_ALL", "C"), ("PATH", "/usr/bin")), tuple(mounts), (), Limits(2 << 30, 300))
        log = folder.parent / "log"
        result = bubblewrap.run(action, folder, log)
        output = log.read_text()
        assert result.exit_code == 0, output
        return output

    return run_in


@pytest.fixture(scope="session")
def old_system(unpacked_debs: Callable[[Iterable[Artifact]], Path]) -> Path:
    """Folder of the libraries and the loader of Debian 11."""
    return unpacked_debs(
        Artifact(name, version, "deb", Path(path).name, size, sha256, path)
        for (name, version, path, size), sha256 in OLD_PACKAGES.items()
    )


@pytest.fixture(scope="session")
def project(bubblewrap: Bwrap, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001  # it must work first
    """A kernel from the template whose CPU variant is built; read it, copy it, leave it as it is."""
    folder = tmp_path_factory.mktemp("project") / "silu-and-mul"
    assert run("init", REPO_ID, "--dir", folder).code == 0
    done = run("build", folder, "--variant", "*-cpu-*")
    assert done.code == 0, done.stderr
    return folder


@pytest.fixture
def fresh_cache(tmp_path: Path) -> Mapping[str, str]:
    """Environment with a cache of its own that shares toolchains and downloads but no results."""
    folder = tmp_path / "cache"
    folder.mkdir()
    for name in ("artifacts", "trees"):
        (cache_root() / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(cache_root() / name)
    return {"KERNELWORKS_CACHE": str(folder)}


@pytest.fixture(scope="session")
def make_dist() -> Callable[..., Path]:
    """Gives a revision with a variant per backend, of `size` random bytes each, as `build` lays it out."""

    def made(
        root: Path, *backends: str, digest: str = "0" * 64, dirty: bool = False, size: int = 100, card: str = "# toy\n"
    ) -> Path:
        variants = []
        for backend in backends:
            name = f"torch-stable-abi211-{backend}-x86_64-linux"
            folder = root / "build" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "__init__.py").write_bytes(os.urandom(size))
            wheel = root / "wheels" / f"toy-1+{backend}.whl"
            wheel.parent.mkdir(exist_ok=True)
            wheel.write_bytes(os.urandom(size))
            variants.append(
                Variant(
                    name=name,
                    id=f"_toy_{backend}_0",
                    framework=FrameworkFacts("torch-stable-abi", (2, 11)),
                    backend=BackendFacts(backend, None),
                    python_abi=PythonAbi("none", None),
                    platform=Platform("x86_64", "linux", None),
                    libraries=(),
                    torch_symbols=TorchSymbols(()),
                    python_depends=(),
                    wheel=FileEntry(f"wheels/{wheel.name}", *hash_file(wheel)),
                    package="toy",
                    files=tuple(list_tree(folder)),
                    lock="0" * 64,
                    hermetic=True,
                )
            )
        source = Source(digest, "a" * 40 if dirty else None, dirty)
        index = Index("toy", 1, "apache-2.0", source, "test", tuple(variants))
        (root / "kernel.json").write_bytes(index.to_bytes())
        (root / "README.md").write_text(card)
        return root

    return made
