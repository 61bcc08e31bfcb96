"""`kernel-registry yank`, `deprecate`, `rename` and `visibility`, beside a registry that runs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from kernelworks_server.errors import RepoMoved
from kernelworks_server.records import Notice, Repo
from kernelworks_server.rights import ANONYMOUS, MACHINE
from kernelworks_server.services import Services

PROGRAM = [sys.executable, "-c", "from kernelworks_server.cli import main; main()"]


def run(services: Services, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *arguments, "--root", str(services.config.root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def document(services: Services, *arguments: str) -> Any:
    return json.loads(run(services, *arguments, "--json").stdout)


@pytest.fixture
def relu(services: Services) -> Repo:
    """A private kernel with a branch `v3`."""
    services.people.create_org("acme")
    repo = services.repositories.create(MACHINE, "kernel", "acme/relu", private=True)
    services.repositories.create_branch(MACHINE, repo, "v3", None)
    return repo


def test_a_version_is_yanked_and_the_yank_undone(services: Services, relu: Repo) -> None:
    commit = services.repositories.resolve_revision(relu, "v3")

    done = run(services, "yank", "acme/relu", "v3", "--reason", "wrong for NaN")
    assert done.stdout == f"`v3` of `acme/relu` is yanked (commit {commit})\n"
    assert services.repositories.yanks(relu) == {commit: "wrong for NaN"}

    told = document(services, "yank", "acme/relu", commit, "--undo")
    assert told == {"repo": "acme/relu", "commit": commit, "yanked": False}
    assert services.repositories.yanks(relu) == {}


def test_a_kernel_is_deprecated_and_the_deprecation_undone(services: Services, relu: Repo) -> None:
    done = run(services, "deprecate", "acme/relu", "--message", "slow", "--successor", "acme/fast")
    assert done.stdout == "`acme/relu` is deprecated: slow; use `acme/fast`\n"
    assert services.repositories.notice(relu) == Notice("slow", "acme/fast")

    assert document(services, "deprecate", "acme/relu", "--undo") == {"repo": "acme/relu", "deprecated": None}
    assert services.repositories.notice(relu) is None


def test_a_kernel_is_made_public_and_private_again(services: Services, relu: Repo) -> None:
    assert run(services, "visibility", "acme/relu", "--public").stdout == "`acme/relu` is public\n"
    assert services.repositories.search(ANONYMOUS, kind="kernel") == [replace(relu, private=False)]

    assert document(services, "visibility", "acme/relu", "--private") == {"repo": "acme/relu", "private": True}
    assert services.repositories.search(ANONYMOUS, kind="kernel") == []
    assert run(services, "visibility", "acme/relu").returncode == 2


def test_a_kernel_is_renamed_and_the_log_tells_of_all(services: Services, relu: Repo) -> None:
    services.repositories.yank(MACHINE, relu, "v3", "bad")
    assert document(services, "rename", "acme/relu", "acme/silu") == {"from": "acme/relu", "to": "acme/silu"}
    with pytest.raises(RepoMoved):
        services.repositories.get(MACHINE, "kernel", "acme/relu")

    log = run(services, "log", "--repo", "acme/relu").stdout.splitlines()
    assert [line.partition(" (at the machine) ")[2].split(" ")[0] for line in log] == [
        *("kernel.rename", "yank", "branch.create", "kernel.create")
    ]
    assert log[0].endswith("kernel.rename acme/relu to=acme/silu")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("yank", "acme/absent", "v1"), "no kernel `acme/absent`"),
        (("yank", "acme/relu", "v4"), "`acme/relu` has no revision `v4`"),
        (("yank", "acme/relu", "v3", "--undo"), "`v3` of `acme/relu` is not yanked"),
        (("deprecate", "acme/relu", "--successor", "fast"), "`fast` is not a repository id"),
        (("rename", "acme/relu", "acme/relu2/x"), "`acme/relu2/x` is not a repository id"),
    ],
)
@pytest.mark.usefixtures("relu")
def test_refusals_say_why(services: Services, arguments: tuple[str, ...], words: str) -> None:
    failed = run(services, *arguments)
    assert (failed.returncode, failed.stdout) == (30, "")
    assert words in failed.stderr
