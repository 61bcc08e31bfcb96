"""bubblewrap and nix give the same bytes: nix as the executor, and nix alone in a folder that was exported."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.digest import list_tree
from kernelworks.settings import cache_root
from kernelworks_build.errors import SandboxError, ToolchainError
from kernelworks_build.sandbox.nix import Nix
from kernelworks_build.sandbox.nix_store import NixStore
from kernelworks_build.toolchain.tree import remove

pytestmark = [pytest.mark.nix, pytest.mark.sandbox, pytest.mark.network]

Program = Callable[..., Any]
Built = Callable[..., subprocess.CompletedProcess[str]]
CHECKOUT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("kernel-build")


@pytest.fixture(scope="module", autouse=True)
def _nix_works() -> None:
    try:
        Nix().check()
    except SandboxError as error:
        pytest.skip(str(error))


# By the executor.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("template", "options"),
    [
        pytest.param("cpu", ("--variant", "*-cpu-*"), id="cpu"),
        pytest.param("rocm", ("--variant", "*-rocm72-*", "--arch", "gfx942"), id="rocm", marks=pytest.mark.rocm),
    ],
)
def test_bubblewrap_in_two_folders_and_nix_twice_give_the_same_bytes(
    kernel_build: Program, tmp_path: Path, template: str, options: tuple[str, ...]
) -> None:
    """The second time nix compares by itself what it makes with the first."""
    first, second = tmp_path / "first", tmp_path / "another folder"
    assert kernel_build("init", "demo/toy-kernel", "--template", template, "--dir", first).code == 0
    shutil.copytree(first, second)

    made = []
    for number, (project, sandbox) in enumerate([(first, "bwrap"), (second, "bwrap"), (first, "nix"), (second, "nix")]):
        cache, out = tmp_path / f"cache-{number}", tmp_path / f"dist-{number}"
        cache.mkdir()
        for shared in ("artifacts", "trees", "nix"):
            (cache / shared).symlink_to(cache_root() / shared)
        env = {"KERNELWORKS_CACHE": str(cache)}
        done = kernel_build("build", project, *options, "--sandbox", sandbox, "--out", out, env=env)
        if done.code == ToolchainError.exit_code:
            pytest.skip(f"a locked package is gone: {done.stderr}")
        assert done.code == 0, done.stderr
        made.append(list_tree(out / "build"))

    assert [entry.path.endswith(".so") for entry in made[0]].count(True) == 1
    assert made[0] == made[1] == made[2] == made[3]


# By nix alone.


@pytest.fixture(scope="module")
def exported(kernel_build: Program, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CPU variant of the kernel that is built in `project`, as a folder with all that nix needs."""
    folder = tmp_path_factory.mktemp("exported") / "kernel"
    done = kernel_build("export", project, "--variant", "*-cpu-*", "--out", folder)
    assert done.code == 0, done.stderr
    return folder


@pytest.fixture
def store() -> Iterator[NixStore]:
    """A store of its own, empty."""
    folder = Path(tempfile.mkdtemp(prefix="kernelworks-"))
    yield NixStore(folder)
    remove(folder)


@pytest.fixture
def nix(store: NixStore, tmp_path: Path) -> Built:
    """Runs a program of nix on that store, in the folder `at`; no mirror is named to it."""

    def run(*argv: str | Path, at: Path) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in argv]
        return subprocess.run(
            words, env=store.environment(tmp_path), cwd=at, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.slow
def test_nix_alone_makes_the_same_library_of_an_exported_kernel_by_the_commands_of_the_documentation(
    project: Path, store: NixStore, tmp_path: Path
) -> None:
    """Every tree is made in nix's sandbox and has the digest of its lock: the code that makes them refuses others."""
    shutil.copytree(project, tmp_path / "my-kernel")
    (block,) = (
        text
        for text in re.findall(r"```console\n(.*?)```", (CHECKOUT / "docs" / "nix.md").read_text(), re.DOTALL)
        if "kernel-build export" in text
    )
    commands = [line.removeprefix("$ ").partition("#")[0] for line in block.splitlines()]
    env = {name: value for name, value in store.environment(tmp_path).items() if name != "NIX_CONFIG"}
    path = f"{PROGRAM.parent}{os.pathsep}{env['PATH']}"

    done = subprocess.run(
        ["bash", "-euc", "\n".join(commands)],
        cwd=tmp_path,
        env={**env, "PATH": path, "KERNELWORKS_CACHE": str(cache_root())},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    result = (tmp_path / "exported" / "result").readlink()
    (library,) = list_tree(store.root / str(result).lstrip("/"))
    (packed,) = (entry for entry in list_tree(project / "dist" / "build") if entry.path.endswith(".so"))
    assert library.sha256 == packed.sha256


def test_an_export_names_no_path_of_this_machine(exported: Path) -> None:
    (action,) = (exported / "actions").iterdir()

    assert str(Path.home()) not in action.read_text()
    assert str(cache_root()) not in action.read_text()


@pytest.fixture
def without_mirror(exported: Path, tmp_path: Path) -> Path:
    """A copy of the folder that lacks the packages."""
    return Path(shutil.copytree(exported, tmp_path / "kernel", ignore=shutil.ignore_patterns("mirror")))


def test_another_hash_in_a_lock_leads_to_nothing_and_the_error_names_it(without_mirror: Path, nix: Built) -> None:
    lock = without_mirror / "locks" / "tools.toml"
    lock.write_text(re.sub(r'sha256 = ".*"', f'sha256 = "{"0" * 64}"', lock.read_text()))

    done = nix("nix-build", "--no-out-link", "-A", "artifacts.tools", at=without_mirror)

    assert done.returncode != 0
    assert f"neither-in-the-store-nor-in-a-mirror/{'0' * 64}" in done.stderr


def test_what_was_realised_from_a_mirror_needs_none_afterwards(
    exported: Path, without_mirror: Path, nix: Built
) -> None:
    argv = ("nix-build", "--no-out-link", "-A", "artifacts.tools")
    refused = nix(*argv, at=without_mirror)
    seeded = nix(*argv, at=exported)
    alone = nix(*argv, at=without_mirror)

    assert refused.returncode != 0
    assert seeded.returncode == 0, seeded.stderr
    assert alone.returncode == 0, alone.stderr


def test_other_bytes_than_those_of_the_lock_are_refused(without_mirror: Path, nix: Built, tmp_path: Path) -> None:
    lock = (without_mirror / "locks" / "tools.toml").read_text()
    for digest in re.findall(r'sha256 = "(.*)"', lock):
        served = tmp_path / "artifacts" / digest[:2] / digest
        served.parent.mkdir(parents=True)
        served.write_bytes(b"other bytes")
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        mirror = f"http://127.0.0.1:{server.server_address[1]}"
        argv = ("nix-build", "--no-out-link", "-A", "artifacts.tools", "--argstr", "mirror", mirror)
        done = nix(*argv, at=without_mirror)
        server.shutdown()

    assert done.returncode == 102
    assert "hash mismatch in fixed-output derivation" in done.stderr


def test_a_seed_that_is_another_than_that_of_the_lock_is_refused(without_mirror: Path, nix: Built) -> None:
    with (without_mirror / "busybox" / "bin" / "busybox").open("ab") as file:
        file.write(b"#")

    done = nix("nix-instantiate", "-A", "trees.tools", at=without_mirror)

    assert done.returncode != 0
    assert re.search("path mismatch in .*/busybox'", done.stderr)


def test_the_shell_takes_what_it_names_from_nixpkgs(nix: Built, tmp_path: Path) -> None:
    """A stand-in is all of nixpkgs here: what it has under other names, nobody would see."""
    (tmp_path / "default.nix").write_text(
        '{ }: { mkShell = shell: shell; bubblewrap = "a"; git = "b"; nix = "c"; python311 = "d"; }'
    )
    argv = ("nix-instantiate", "--eval", "--strict", "--json", "-A", "packages", "-I", f"nixpkgs={tmp_path}")

    done = nix(*argv, CHECKOUT / "nix" / "shell.nix", at=tmp_path)

    assert (done.stdout.strip(), done.returncode) == ('["a","b","c","d"]', 0), done.stderr


def test_the_flake_of_the_checkout_evaluates_and_its_check_passes(nix: Built, tmp_path: Path) -> None:
    parts = ("nix", "builder/kernelworks_build", "registry/kernelworks")
    for part in parts:
        shutil.copytree(CHECKOUT / part, tmp_path / "repository" / part)
    repository = tmp_path / "repository"
    for command in (("init", "--quiet"), ("add", "nix", "builder", "registry")):
        subprocess.run(["git", *command], cwd=repository, check=True)

    done = nix("nix", "flake", "check", f"git+file://{repository}?dir=nix", at=repository)

    assert done.returncode == 0, done.stderr
