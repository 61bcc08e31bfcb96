"""`kernel-build lock`: what it writes is what `build` then uses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks_build.cli import app, lock
from kernelworks_build.toolchain.lock import SHIPPED, Lock, LockSet, lock_command

Program = Callable[..., Any]


@pytest.mark.network
def test_a_new_lock_holds_a_tree_that_was_made_and_differs_only_if_the_origin_does(
    kernel_build: Program, tmp_path: Path
) -> None:
    done = kernel_build("lock", "--python", "--out", tmp_path / "locks", "--json")
    if done.code == 22 and "add a source of `" in done.stdout:
        pytest.skip("apt has no source of Debian bookworm or trixie here")
    assert done.code == 0, done.stderr
    assert [lock["name"] for lock in done.document["locks"]] == ["python", "python-3.13"]
    for told in done.document["locks"]:
        written = Lock.parse((tmp_path / "locks" / f"{told['name']}.toml").read_text(), "new")
        shipped = Lock.parse((SHIPPED / f"{told['name']}.toml").read_text(), "shipped")
        assert told["digest"] == written.digest
        assert (written.artifacts == shipped.artifacts) == (written.digest == shipped.digest)


def test_a_lock_of_the_project_adds_a_torch_release_to_the_plan(kernel_build: Program, tmp_path: Path) -> None:
    kernel_build("init", "demo/toy-kernel", "--dir", tmp_path / "toy")
    folder = tmp_path / "toy" / "kernel-locks"
    folder.mkdir()
    text = (SHIPPED / "torch-2.15.0.toml").read_text().replace("2.15.0", "2.16.1")
    (folder / "torch-2.16.1.toml").write_text(text)
    shutil.copy(SHIPPED / "torch-2.15.0.symbols.gz", folder / "torch-2.16.1.symbols.gz")
    done = kernel_build("plan", tmp_path / "toy", "--json")
    assert [variant["torch-releases"][-1] for variant in done.document["variants"]] == ["2.16.1"] * 4


@pytest.mark.parametrize("name", sorted(LockSet.load().locks))
def test_the_command_that_is_told_for_a_lock_pins_it(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pinned = []

    def relock(name: str, *_: object, **__: object) -> Lock:
        pinned.append(name)
        return Lock(name, "any", "0" * 64, ())

    monkeypatch.setattr(lock, "relock", relock)
    monkeypatch.setenv("KERNELWORKS_CACHE", str(tmp_path / "cache"))
    program, *arguments = lock_command(name).split()
    app([*arguments, "--out", str(tmp_path)], standalone_mode=False)
    assert (program, name in pinned) == ("kernel-build", True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "nothing to lock is named"),
        (("--cuda", "11.8"), 22, "`cuda-11.8` cannot be locked (known:"),
        (("--rocm", "9.9"), 22, "`rocm-9.9` cannot be locked (known: rocm-7.2)"),
        (("--sandbox", "bwarp", "--tools"), 2, "did you mean `bwrap`?"),
    ],
)
def test_what_cannot_be_locked_is_said(
    kernel_build: Program, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = kernel_build("lock", *arguments, "--out", tmp_path)
    assert (done.code, words in done.stderr) == (code, True), done.stderr
    assert not list(tmp_path.glob("*.toml"))
