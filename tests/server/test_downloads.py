"""Downloads: what counts as one, that counts survive a stop, and where they are shown."""

from __future__ import annotations

import dataclasses
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.index import Index, Source
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi, TorchSymbols, Variant
from kernelworks_server.database.engine import now
from kernelworks_server.database.tables import downloads
from kernelworks_server.downloads import variant_at
from kernelworks_server.records import AddFile, Repo
from kernelworks_server.rights import MACHINE
from kernelworks_server.services import Services

if TYPE_CHECKING:
    from conftest import Server  # type: ignore[import-not-found]

LIBRARY, WHEEL = b"an ELF file", b"a wheel"
NATIVE = Variant(
    name="torch-stable-abi211-cpu-x86_64-linux",
    id="_relu_1a2b3c4d",
    framework=FrameworkFacts("torch-stable-abi", (2, 11)),
    backend=BackendFacts("cpu", None),
    python_abi=PythonAbi("abi3", (3, 10)),
    platform=Platform("x86_64", "linux", (2, 28)),
    libraries=(),
    torch_symbols=TorchSymbols(()),
    python_depends=(),
    wheel=FileEntry("wheels/relu.whl", len(WHEEL), hash_bytes(WHEEL)),
    package="relu",
    files=(FileEntry("__init__.py", 0, hash_bytes(b"")), FileEntry("_relu.abi3.so", 11, hash_bytes(LIBRARY))),
    lock="0" * 64,
    hermetic=True,
)
PURE = dataclasses.replace(
    NATIVE,
    name="torch-cpu",
    wheel=dataclasses.replace(NATIVE.wheel, path="wheels/pure.whl"),
    files=(FileEntry("__init__.py", 0, hash_bytes(b"")), FileEntry("ops.py", 0, hash_bytes(b""))),
)
INDEX = Index("relu", 1, "MIT", Source("ab" * 32), "kernelworks 0.1.0", (NATIVE, PURE))
WHEEL_PATH = NATIVE.wheel.path
LIBRARY_PATH = f"build/{NATIVE.name}/_relu.abi3.so"


@pytest.mark.parametrize(
    ("path", "index", "variant"),
    [
        (WHEEL_PATH, INDEX, NATIVE.name),
        (LIBRARY_PATH, INDEX, NATIVE.name),
        (f"build/{NATIVE.name}/__init__.py", INDEX, None),
        ("build/torch-cpu/__init__.py", INDEX, "torch-cpu"),
        ("build/torch-cpu/ops.py", INDEX, None),
        ("build/elsewhere/_relu.abi3.so", INDEX, None),
        ("wheels/other.whl", INDEX, None),
        ("kernel.json", INDEX, None),
        ("build/torch-cuda/x/_k.abi3.so", None, "torch-cuda"),
        ("build/torch-cuda/x/__init__.py", None, None),
        ("torch-cuda/_k.so", None, None),
        (f"build/{'x' * 201}/_k.so", None, None),
        (WHEEL_PATH, None, None),
    ],
)
def test_one_file_of_a_variant_stands_for_its_download(path: str, index: Index | None, variant: str | None) -> None:
    assert variant_at(path, index) == variant


def fill(services: Services) -> Repo:
    """The kernel `acme/relu`, its version 1 with a wheel and a library."""
    services.people.create_org("acme")
    repositories = services.repositories
    repo = repositories.create(MACHINE, "kernel", "acme/relu", private=False)
    repositories.create_branch(MACHINE, repo, "v1", None)
    files = {"kernel.json": INDEX.to_bytes(), WHEEL_PATH: WHEEL, LIBRARY_PATH: LIBRARY, "README.md": b"# relu"}
    operations = []
    for path, data in files.items():
        sha256, size = repositories.receive(repo, [data], expected=None, limit=1 << 20)
        operations.append(AddFile(path, sha256, size, lfs=path.endswith((".whl", ".so"))))
    repositories.commit(MACHINE, repo, "v1", operations, message="m", description="", parent=None)
    return repo


def counted(services: Services) -> dict[str, int]:
    services.downloads.flush()
    with services.database.read() as connection:
        return {row.variant: row.count for row in connection.execute(select(downloads.c.variant, downloads.c.count))}


def ask(url: str, method: str = "GET", **headers: str) -> bytes:
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310  # loopback
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310  # as above
        read: bytes = response.read()
    return read


@pytest.mark.server
def test_each_get_from_the_first_byte_counts_once_by_every_address(server: Server) -> None:
    repo = fill(server.services)
    commit = server.services.repositories.resolve_revision(repo, "v1")
    file = f"{server.url}/kernels/acme/relu/resolve/v1"
    assert ask(f"{file}/{WHEEL_PATH}") == WHEEL
    assert ask(f"{file}/{LIBRARY_PATH}", Range="bytes=0-3") == LIBRARY[:4]
    assert ask(f"{server.url}/simple/files/acme/relu/{commit}/{WHEEL_PATH}") == WHEEL
    assert counted(server.services) == {NATIVE.name: 3}
    ask(f"{file}/{WHEEL_PATH}", "HEAD")
    ask(f"{file}/{WHEEL_PATH}", Range="bytes=3-")
    ask(f"{file}/{WHEEL_PATH}", Range="bytes=-2")
    with pytest.raises(urllib.error.HTTPError, match="304"):
        ask(f"{file}/{WHEEL_PATH}", **{"If-None-Match": f'"{hash_bytes(WHEEL)}"'})
    ask(f"{file}/kernel.json")
    ask(f"{file}/README.md")
    assert counted(server.services) == {NATIVE.name: 3}


@pytest.mark.server
def test_counts_are_shown_by_the_hub_api_and_the_metrics(server: Server) -> None:
    repo = fill(server.services)
    for _ in range(4):
        ask(f"{server.url}/kernels/acme/relu/resolve/v1/{WHEEL_PATH}")
    server.services.downloads.flush()
    told = json.loads(ask(f"{server.url}/api/kernels/acme/relu"))
    listed = json.loads(ask(f"{server.url}/api/kernels"))
    assert (told["downloads"], [entry["downloads"] for entry in listed]) == (4, [4])
    assert b"\nkernel_registry_downloads_total 4\n" in ask(f"{server.url}/metrics")
    assert sum(server.services.downloads.by_day(repo.id, 7).values()) == 4


@pytest.mark.server
def test_a_server_that_is_stopped_forgets_no_count(
    start_server: Callable[..., AbstractContextManager[Server]], services: Services
) -> None:
    fill(services)
    application = start_server()
    with application as running:
        ask(f"{running.url}/kernels/acme/relu/resolve/v1/{WHEEL_PATH}")
    assert counted(services) == {NATIVE.name: 1}


def test_counts_add_up_over_processes_and_flushes(services: Services) -> None:
    repo = fill(services)
    for _ in range(3):
        services.downloads.count(repo.id, "a")
        services.downloads.flush()
    services.downloads.count(repo.id, "b")
    assert counted(services) == {"a": 3, "b": 1}
    assert list(services.downloads.by_variant(repo.id).items()) == [("a", 3), ("b", 1)]


def test_counts_of_a_kernel_that_is_deleted_meanwhile_are_dropped_and_others_kept(services: Services) -> None:
    repo = fill(services)
    other = services.repositories.create(MACHINE, "kernel", "acme/gelu", private=False)
    services.downloads.count(repo.id, "a")
    services.downloads.count(other.id, "b")
    services.repositories.delete(MACHINE, "kernel", "acme/relu")
    assert counted(services) == {"b": 1}


def test_old_downloads_leave_the_month_but_not_the_plot(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = fill(services)
    today = now() // (86_400 * 1_000_000)
    monkeypatch.setattr("kernelworks_server.downloads.now", lambda: today * 86_400 * 1_000_000)  # whatever comes
    with services.database.write() as connection:
        for age, count in ((0, 1), (29, 10), (30, 100), (90, 1_000)):
            row = {"repo": repo.id, "day": today - age, "variant": "a", "count": count}
            connection.execute(downloads.insert().values(**row))
    assert services.downloads.of_month([repo.id])[repo.id] == 11
    days = services.downloads.by_day(repo.id, 91)
    oldest, *_, newest = days
    assert (days[oldest], sum(days.values())) == (1_000, 1_111)
    assert newest - oldest == timedelta(days=90)
    assert abs(newest - datetime.now(timezone.utc).date()) <= timedelta(days=1)  # midnight may pass meanwhile
