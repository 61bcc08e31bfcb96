"""nix's hash of a folder, known without nix."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.nar import hash_of_program
from kernelworks_build.toolchain.recipes import layout


@pytest.mark.nix
@pytest.mark.parametrize("content", [b"", b"12345678", b"123456789"], ids=["nothing", "eight", "nine"])
@pytest.mark.parametrize("name", ["program", "bin/busybox", "a/longer/path"])
def test_the_hash_of_a_program_is_that_of_nix(tmp_path: Path, name: str, content: bytes) -> None:
    if shutil.which("nix-hash") is None:
        pytest.skip("nix is not installed")
    program = tmp_path / "folder" / name
    program.parent.mkdir(parents=True)
    program.write_bytes(content)
    program.chmod(0o755)

    done = subprocess.run(
        ["nix-hash", "--type", "sha256", tmp_path / "folder"], capture_output=True, text=True, check=True
    )

    assert hash_of_program(name, content) == done.stdout.strip()


def test_a_lock_has_a_seed_where_its_recipe_names_one() -> None:
    locks = LockSet.load().locks.values()
    made_by_code = {"sysroot", "torch"}

    seeded = {lock.name for lock in locks if lock.seed}

    assert seeded == {lock.name for lock in locks if lock.recipe not in made_by_code and layout(lock.recipe).seed}
    assert seeded == {"nix"}
