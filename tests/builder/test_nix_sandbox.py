"""What is special about the executor `nix`; what all executors give is in `test_sandbox_executors.py`."""

from __future__ import annotations

import re
import secrets
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kernelworks.settings import cache_root
from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.errors import SandboxError
from kernelworks_build.sandbox import executor
from kernelworks_build.sandbox.nix import Nix
from kernelworks_build.sandbox.nix_store import DRIVER, complaint
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.toolchain.tree import digest_of

pytestmark = [pytest.mark.nix, pytest.mark.sandbox]

CLOCK = "/bin/busybox cat /proc/uptime /proc/sys/kernel/random/uuid > stamp"


@pytest.fixture
def nix() -> Nix:
    found = Nix()
    try:
        found.check()
    except SandboxError as error:
        pytest.skip(str(error))
    return found


def action(nix: Nix, script: str, *outputs: str) -> Action:
    """An action whose `/usr` is the tree that derivations start with: it has a shell."""
    argv = ("/bin/busybox", "sh", "-euc", script)
    return Action(argv, (), (Mount("/usr", nix._driver),), outputs, Limits(512 << 20, 60))


def fresh(folder: Path) -> Path:
    folder.mkdir()
    return folder


def nothing_is_bound(nix: Nix, derivation: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A second run of `derivation` by nix alone, compared with the first."""
    argv = ["nix-store", "--realise", "--check", derivation]
    return subprocess.run(argv, env=nix._store.environment(folder), capture_output=True, text=True, check=False)


def test_nix_alone_makes_the_outputs_again(nix: Nix, tmp_path: Path) -> None:
    script = "echo made > file; /bin/busybox mkdir -p a/b; echo deep > 'a/b/with blank'"
    job = action(nix, script, "file", "a/b/with blank")

    result = nix.run(job, fresh(tmp_path / "build"), tmp_path / "log")
    again = nothing_is_bound(nix, nix._store.derivation(job, nix._driver), tmp_path)

    assert (result.exit_code, result.missing_outputs) == (0, ())
    assert again.returncode == 0, again.stderr
    made = nix._store.root / again.stdout.strip().lstrip("/")
    assert sorted(str(path.relative_to(made)) for path in made.rglob("*")) == ["a", "a/b", "a/b/with blank", "file"]
    assert (made / "a/b/with blank").read_text() == "deep\n"


def test_an_action_that_reads_the_clock_is_found_out_when_it_is_run_again(nix: Nix, tmp_path: Path) -> None:
    never_run_before = secrets.token_hex(8)
    job = action(nix, f"{CLOCK} # {never_run_before}", "stamp")
    nix.run(job, fresh(tmp_path / "first"), tmp_path / "log")

    with pytest.raises(SandboxError, match=r"nix does not take what `/bin/busybox` made: .* may not be deterministic"):
        nix.run(job, fresh(tmp_path / "second"), tmp_path / "log")

    by_nix = nothing_is_bound(nix, nix._store.derivation(job, nix._driver), tmp_path)
    assert by_nix.returncode != 0
    assert "may not be deterministic" in by_nix.stderr


def test_what_is_no_output_may_differ(nix: Nix, tmp_path: Path) -> None:
    job = action(nix, f"{CLOCK}; echo same > file", "file")

    results = [nix.run(job, fresh(tmp_path / name), tmp_path / "log") for name in ("first", "second")]

    assert [result.exit_code for result in results] == [0, 0]
    assert (tmp_path / "first/stamp").read_text() != (tmp_path / "second/stamp").read_text()


def test_the_passwords_and_the_network_of_the_host_are_out_of_reach(nix: Nix, tmp_path: Path) -> None:
    script = "/bin/busybox ls /etc/passwd /etc/hosts || /bin/busybox ip -o link"

    result = nix.run(action(nix, script), fresh(tmp_path / "build"), tmp_path / "log")

    log = result.log.read_text()
    assert log.count("No such file or directory") == 2
    assert re.findall(r"^\d+: (\w+):", log, re.MULTILINE) == ["lo"]


def test_nothing_of_it_is_in_the_store_of_the_machine(nix: Nix, tmp_path: Path) -> None:
    made = [nix._store.add(nix._driver)]

    for script in ("echo made", "exit 3"):
        job = action(nix, f"{script} # {secrets.token_hex(8)}")
        nix.run(job, fresh(tmp_path / script.split()[0]), tmp_path / "log")
        made.append(nix._store.derivation(job, nix._driver))

    assert [path for path in made if not (nix._store.root / path.lstrip("/")).exists()] == []
    assert [path for path in made if Path(path).exists()] == []


def test_derivations_start_with_the_tree_that_is_locked(nix: Nix) -> None:
    assert digest_of(nix._driver.path) == LockSet.load()[DRIVER].digest


def test_a_lock_of_the_project_pins_what_derivations_start_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWORKS_CACHE", str(tmp_path))
    own = TreeStore(tmp_path / "trees").add(lambda folder: (folder / "file").touch())
    lock = replace(LockSet.load()[DRIVER], digest=own.digest)

    found = executor("nix", LockSet({DRIVER: lock}))

    assert isinstance(found, Nix)
    assert found._driver == own


def test_a_missing_nix_is_an_error_that_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apt-get").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SandboxError, match="nix is not installed: there is no `nix-store`") as caught:
        Nix(tmp_path).check()

    assert "apt-get install nix-bin" in str(caught.value.hint)
    (tmp_path / "apt-get").unlink()
    with pytest.raises(SandboxError) as caught:
        Nix(tmp_path).check()
    assert caught.value.hint == "install the package nix (nix-bin on Debian)"


def test_a_nix_that_is_too_old_is_an_error_with_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "nix-store"
    old.write_text("#!/bin/sh\necho 'nix-store (Nix) 2.3.16'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SandboxError, match=r"nix 2\.3\.16 is too old") as caught:
        Nix(tmp_path).check()

    assert "nix 2.8 or newer" in str(caught.value.hint)


def test_a_cache_that_nix_cannot_name_is_an_error(tmp_path: Path) -> None:
    nix = Nix(tmp_path / "my cache")

    for use in (nix.check, lambda: nix._store.add(Tree("0" * 64, tmp_path))):
        with pytest.raises(SandboxError, match="a path with a blank") as caught:
            use()
        assert "KERNELWORKS_CACHE" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "warning: old\nerror: path '/a' is no derivation\n(use '--show-trace' to show more)",
            "path '/a' is no derivation",
        ),
        ("error:\n       … while calling it\n\n       error: no such file\n       at /b:1", "no such file"),
        ("killed", "killed"),
        ("", ""),
    ],
)
def test_nix_is_quoted_with_its_first_error_in_words(said: str, words: str) -> None:
    assert complaint(said) == words


def test_the_same_tree_is_added_once(nix: Nix, tmp_path: Path) -> None:
    folder = fresh(tmp_path / "tree")
    (folder / "file").write_text(content := secrets.token_hex(8))
    tree = Tree(digest_of(folder), folder)
    first = nix._store.add(tree)
    (folder / "file").unlink()

    assert nix._store.add(tree) == first
    assert (cache_root().resolve() / "nix" / first.lstrip("/") / "file").read_text() == content
