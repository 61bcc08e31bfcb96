"""The shelf: what lists know of versions, always as the branches, yanks and rights are at this moment."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import delete, select, update

from kernelworks.model.digest import FileEntry
from kernelworks.model.index import Index, Source
from kernelworks.model.variant import (
    BackendFacts,
    DeviceArchs,
    FrameworkFacts,
    KernelDependency,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks_server.database.tables import needs, offers, profiles, shelf
from kernelworks_server.errors import PreconditionFailed
from kernelworks_server.pages.finding import Summary, find
from kernelworks_server.records import AddFile, Repo
from kernelworks_server.rights import ANONYMOUS, MACHINE, Actor
from kernelworks_server.services import Services
from kernelworks_server.wishes import Wish

pytestmark = pytest.mark.backing("sqlite+folder", "postgresql+folder")

CPU = Variant(
    name="torch-stable-abi211-cpu-x86_64-linux",
    id="_relu_1a2b3c4d",
    framework=FrameworkFacts("torch-stable-abi", (2, 11)),
    backend=BackendFacts("cpu", None),
    python_abi=PythonAbi("abi3", (3, 10)),
    platform=Platform("x86_64", "linux", (2, 28)),
    libraries=("libc.so.6",),
    torch_symbols=TorchSymbols(()),
    python_depends=(),
    wheel=FileEntry("wheels/relu.whl", 5, "0" * 64),
    package="relu",
    files=(),
    lock="0" * 64,
    hermetic=True,
)
CUDA = dataclasses.replace(
    CPU,
    name="torch-stable-abi211-cu130-x86_64-linux",
    backend=BackendFacts("cuda", (13, 0), DeviceArchs(("8.6",), ("9.0",))),
)


def index(*variants: Variant) -> bytes:
    return Index("relu", 1, "MIT", Source("ab" * 32), "kernelworks 0.1.0", variants).to_bytes()


@pytest.fixture
def relu(services: Services) -> Repo:
    services.people.create_org("acme")
    return services.repositories.create(MACHINE, "kernel", "acme/relu", private=False)


@pytest.fixture
def commit(services: Services) -> Callable[..., str]:
    """Commits this `kernel.json`, and makes the branch where there is none."""

    def made(repo: Repo, branch: str, data: bytes, parent: str | None = None) -> str:
        repositories = services.repositories
        if branch not in {ref.name for ref in repositories.refs(repo)}:
            repositories.create_branch(MACHINE, repo, branch, None)
        sha256, size = repositories.receive(repo, [data], expected=None, limit=1 << 24)
        add = AddFile("kernel.json", sha256, size, lfs=True)
        return repositories.commit(MACHINE, repo, branch, [add], message="m", description="", parent=parent)

    return made


def listed(services: Services, actor: Actor = ANONYMOUS, wish: Wish | None = None) -> list[Summary]:
    return list(find(services, actor, wish or Wish()).kernels)


def test_a_list_tells_of_the_newest_version_as_soon_as_it_is_committed(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    commit(relu, "v9", index(CPU))
    assert [(kernel.version, kernel.backends) for kernel in listed(services)] == [(9, ("CPU",))]
    commit(relu, "v10", index(CPU, CUDA))
    assert [(kernel.version, kernel.variants) for kernel in listed(services)] == [(10, 2)]
    assert listed(services)[0].backends == ("CUDA 13.0", "CPU")
    assert listed(services)[0].archs == ("8.6", "9.0+PTX")


def test_a_commit_that_is_refused_leaves_the_shelf_as_it_was(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    commit(relu, "v1", index(CPU))
    with pytest.raises(PreconditionFailed):
        commit(relu, "v1", index(CPU, CUDA), parent="0" * 40)
    assert listed(services)[0].variants == 1


def test_a_version_with_very_many_variants_is_listed_with_their_number_and_found_by_some_of_them(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    many = [
        dataclasses.replace(
            CUDA, name=f"torch-stable-abi{number}-cu130", framework=FrameworkFacts("torch", (2, number))
        )
        for number in range(1_100)
    ]
    commit(relu, "v1", index(*many))

    assert listed(services)[0].variants == 1_100
    assert len(services.shelf.profiles._known) == 1_000


def test_a_version_that_is_made_of_a_prepared_branch_is_listed_at_once(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    commit(relu, "incoming-v1", index(CUDA))
    assert listed(services)[0].version is None
    services.repositories.create_branch(MACHINE, relu, "v1", "incoming-v1")
    assert listed(services, wish=Wish("cuda"))[0].version == 1


def test_without_versions_a_list_tells_of_main(services: Services, relu: Repo, commit: Callable[..., str]) -> None:
    commit(relu, "main", index(CUDA))
    assert [(kernel.version, kernel.variants) for kernel in listed(services)] == [(None, 1)]
    commit(relu, "v0", index(CPU))
    services.repositories.delete_branch(MACHINE, relu, "v0")
    assert listed(services, wish=Wish("cuda"))[0].version is None


def test_the_newest_version_is_not_a_yanked_one_unless_all_are(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    for version in ("v1", "v2"):
        commit(relu, version, index(CPU))
    services.repositories.yank(MACHINE, relu, "v2", "wrong gradients")
    assert services.shelf.newest(relu) == "v1"
    services.repositories.yank(MACHINE, relu, "v1")
    assert services.shelf.newest(relu) == "v2"
    services.repositories.unyank(MACHINE, relu, "v1")
    assert services.shelf.newest(relu) == "v1"
    commit(relu, "v2", index(CUDA))
    assert services.shelf.newest(relu) == "v2"


def test_a_list_shows_private_kernels_to_their_readers_only(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    commit(relu, "v1", index(CPU))
    hidden = services.repositories.create(MACHINE, "kernel", "acme/secret", private=True)
    commit(hidden, "v1", index(CPU))
    member = Actor("ann", "read", {"acme": "read"})
    for wish in (Wish(), Wish("cpu")):
        assert [kernel.repo.name for kernel in listed(services, ANONYMOUS, wish)] == ["relu"]
        assert [kernel.repo.name for kernel in listed(services, Actor("eve", "admin"), wish)] == ["relu"]
        assert [kernel.repo.name for kernel in listed(services, member, wish)] == ["relu", "secret"]


def test_a_deleted_or_renamed_kernel_takes_its_facts_along(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    commit(relu, "v1", index(dataclasses.replace(CPU, kernel_depends=(KernelDependency("acme/gelu", 1),))))
    services.repositories.rename(MACHINE, "kernel", "acme/relu", "acme/rectify")
    assert [kernel.repo.repo_id for kernel in listed(services, wish=Wish("cpu"))] == ["acme/rectify"]
    services.repositories.delete(MACHINE, "kernel", "acme/rectify")
    with services.database.read() as connection:
        assert [connection.execute(select(table)).all() for table in (shelf, offers, needs)] == [[], [], []]


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[" * 10_000, index()])
def test_an_index_that_cannot_be_read_is_no_obstacle_to_its_commit(
    services: Services, relu: Repo, commit: Callable[..., str], data: bytes
) -> None:
    commit(relu, "v1", data)
    assert [(kernel.version, kernel.variants) for kernel in listed(services)] == [(1, 0)]


def test_names_longer_than_any_repositorys_are_no_obstacle(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    commit(relu, "v1", index(dataclasses.replace(CPU, kernel_depends=(KernelDependency("a" * 9_000, 1),))))
    with services.database.read() as connection:
        assert connection.scalars(select(needs.c.repo_key)).all() == ["a" * 200]


def test_variants_with_one_profile_share_it_across_kernels(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    arm = dataclasses.replace(CPU, name="arm", platform=Platform("aarch64", "linux", (2, 34)))
    commit(relu, "v1", index(CPU, arm))
    commit(services.repositories.create(MACHINE, "kernel", "acme/gelu", private=False), "v1", index(CPU))
    with services.database.read() as connection:
        assert len(connection.execute(select(profiles)).all()) == 1
        assert len(connection.execute(select(offers)).all()) == 2


def test_a_wish_is_for_one_variant_that_has_all_of_it(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    old = dataclasses.replace(CPU, name="old", framework=FrameworkFacts("torch", (2, 9), cxx11=True))
    commit(relu, "v1", index(old, CUDA))
    assert listed(services, wish=Wish("cuda", "8.9", (2, 13)))
    assert listed(services, wish=Wish("cpu", None, (2, 9)))
    assert not listed(services, wish=Wish("cpu", None, (2, 13)))
    assert not listed(services, wish=Wish("cuda", "8.0"))


def test_pages_go_on_where_the_last_one_ended_with_rare_wishes_and_with_common_ones(
    services: Services, relu: Repo, commit: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(relu, "v1", index(CUDA))
    for number in range(30):
        commit(services.repositories.create(MACHINE, "kernel", f"acme/k{number:02}", private=False), "v1", index(CPU))
    for rare in (500, 3):
        monkeypatch.setattr("kernelworks_server.pages.finding._RARE", rare)
        first = find(services, ANONYMOUS, Wish("cpu"))
        second = find(services, ANONYMOUS, Wish("cpu"), after=first.after)
        seen = [kernel.repo.name for kernel in (*first.kernels, *second.kernels)]
        assert seen == [f"k{number:02}" for number in range(30)]
        assert second.after is None


def test_a_start_fills_what_an_older_program_left_out(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    commit(relu, "v1", index(CUDA))
    head = commit(relu, "v2", index(CPU))
    with services.database.write() as connection:
        connection.execute(delete(shelf).where(shelf.c.branch == "v1"))
        connection.execute(update(shelf).where(shelf.c.branch == "v2").values(commit="0" * 40, version=7))
    assert services.shelf.fill() == 2
    assert services.shelf.fill() == 0
    with services.database.read() as connection:
        rows = connection.execute(select(shelf.c.branch, shelf.c.version, shelf.c.newest).order_by(shelf.c.branch))
        assert rows.all() == [("main", None, False), ("v1", 1, False), ("v2", 2, True)]
        assert connection.scalar(select(shelf.c.commit).where(shelf.c.branch == "v2")) == head


@pytest.mark.backing("sqlite+folder")  # which the program finds by the folder alone
def test_the_program_writes_the_shelf_anew(services: Services, relu: Repo, commit: Callable[..., str]) -> None:
    commit(relu, "v1", index(CPU, CUDA))
    with services.database.write() as connection:
        connection.execute(update(shelf).values(variants=99))
    program = [sys.executable, "-c", "from kernelworks_server.cli import main; main()"]
    command = [*program, "reindex", "--root", str(services.config.root), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"heads": 2}
    assert listed(services)[0].variants == 2


def test_versions_that_are_made_at_once_leave_one_newest(
    services: Services, relu: Repo, commit: Callable[..., str]
) -> None:
    for version in range(4):
        services.repositories.create_branch(MACHINE, relu, f"v{version}", None)
    threads = [threading.Thread(target=commit, args=(relu, f"v{version}", index(CPU))) for version in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with services.database.read() as connection:
        assert connection.scalars(select(shelf.c.branch).where(shelf.c.newest)).all() == ["v3"]
        assert len(connection.execute(select(shelf)).all()) == 5
