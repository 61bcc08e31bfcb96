"""Locked kernels of a server: no socket, no third-party module, and consent where code comes onto this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelworks import TransportError, TrustError, VerifyError, get_locked_kernel, load_kernel
from kernelworks.cli import main
from kernelworks.lockfile import Lock, read_lock
from kernelworks.locking.pinning import lock_kernels
from kernelworks.locking.project import Wanted
from kernelworks.model.variant import KernelDependency, Variant

if TYPE_CHECKING:
    from typing import Any

    from conftest import Hub

Pack = Callable[..., tuple[Variant, bytes]]
REPO = "org/demo"


def lock_of(folder: Path, hub: Hub) -> Path:
    path = folder / "kernelworks.lock"
    path.write_bytes(Lock("", lock_kernels([Wanted(KernelDependency(REPO, 1))], (hub.url,))).to_bytes())
    return path


def test_a_locked_kernel_that_is_here_needs_no_socket_and_no_package(
    hub: Hub, pack: Pack, tmp_path: Path, processes: Any
) -> None:
    hub.publish(1, pack())
    lockfile = lock_of(tmp_path, hub)
    get_locked_kernel(REPO, lockfile=lockfile, trust_remote_code=True)
    program = (
        "import socket, sys, kernelworks\n"
        "def forbidden(*_, **__): raise AssertionError('a socket')\n"
        "socket.socket = socket.create_connection = socket.getaddrinfo = forbidden\n"
        f"kernel = kernelworks.load_kernel({REPO!r}, lockfile={str(lockfile)!r})\n"
        "own = {name.partition('.')[0] for name in sys.modules}\n"
        "print(kernel.twice(4), *sorted(own & {'http', 'ssl', 'huggingface_hub', 'requests', 'packaging', 'torch'}))"
    )
    assert processes.start(program).communicate() == ("8\n", "")


def test_load_kernel_fetches_nothing(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    hub.publish(1, pack())
    lockfile = lock_of(tmp_path, hub)
    asked = len(hub.requests)
    with pytest.raises(TransportError, match="does not know `wheels/"):
        load_kernel(REPO, lockfile=lockfile)
    assert len(hub.requests) == asked


def test_a_registry_that_only_a_project_and_its_lock_name_gets_no_token(
    make_hub: Callable[[], Hub], pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = make_hub()
    theirs.publish(1, pack())
    monkeypatch.setenv("HF_TOKEN", "kw_mine")
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.kernelworks.dependencies]\n"{REPO}" = {{version = 1, registry = "{theirs.url}"}}\n'
    )
    project = str(tmp_path)
    commands = (["lock", project], ["sync", project, "--trust-remote-code"], ["verify", "--lock", project])
    assert [main(command) for command in commands] == [0, 0, 0]
    assert theirs.headers
    assert [headers for headers in theirs.headers if "Authorization" in headers] == []


def test_to_be_locked_is_no_consent(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    hub.publish(1, pack())
    lockfile = lock_of(tmp_path, hub)
    with pytest.raises(TrustError):
        get_locked_kernel(REPO, lockfile=lockfile)
    assert get_locked_kernel(REPO, lockfile=lockfile, trust_remote_code=True).twice(2) == 4


def test_a_server_that_puts_other_bytes_under_a_commit_is_found_out(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    commit = hub.publish(1, pack())
    lockfile = lock_of(tmp_path, hub)
    (tmp_path / "cache").rename(tmp_path / "another-machine")
    hub.publish(1, pack({"__init__.py": b"evil = True\n"}), commit=commit)
    with pytest.raises(VerifyError, match="is not the one that was locked"):
        get_locked_kernel(REPO, lockfile=lockfile, trust_remote_code=True)


def test_kernels_without_an_index_are_locked_by_the_digest_of_their_files(hub: Hub, tmp_path: Path) -> None:
    hub.publish_foreign(1, {"torch-cpu": {"__init__.py": b"value = 1\n"}})
    lockfile = lock_of(tmp_path, hub)
    (pin,) = read_lock(lockfile).pins
    assert list(pin.variants) == ["torch-cpu"]
    assert get_locked_kernel(REPO, lockfile=lockfile, trust_remote_code=True).value == 1


def test_info_lists_kernels_without_an_index_and_what_is_yanked(
    hub: Hub, pack: Pack, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.publish_foreign(1, {"torch-cpu": {"__init__.py": b"value = 1\n"}})
    hub.yanked[hub.publish(2, pack())] = "wrong sums"
    assert main(["info", REPO, "--json"]) == 0
    newer, older = json.loads(capsys.readouterr().out)["versions"]
    assert (newer["version"], newer["yanked"], newer["license"]) == (2, "wrong sums", "Apache-2.0")
    assert (older["version"], older["yanked"], older["license"]) == (1, None, None)
    assert older["variants"][0]["wheel"] is None
    assert main(["info", REPO]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split() == ["1", "torch-cpu", "-", "-", "no", "-", "-"]
    assert lines[4] == "version 2 is yanked: wrong sums"


def test_list_names_what_was_fetched_and_never_loaded(
    hub: Hub, pack: Pack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = hub.publish(1, pack())
    lockfile = lock_of(tmp_path, hub)
    assert main(["sync", str(lockfile)]) == TrustError.exit_code
    assert main(["sync", str(lockfile), "--trust-remote-code"]) == 0
    capsys.readouterr()
    assert main(["list"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == [REPO, "1", commit[:16]]
