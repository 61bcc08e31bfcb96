"""How long the lists of a registry take when it holds ten thousand kernels of twenty variants each."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.serving import processes
from benchmarks.serving.client import drain, request
from benchmarks.serving.figures import Figure
from sqlalchemy import insert, select

from kernelworks.model.digest import hash_bytes
from kernelworks.model.variant import BackendFacts, DeviceArchs, FrameworkFacts
from kernelworks_server import trees
from kernelworks_server.config import open_config
from kernelworks_server.database import tables
from kernelworks_server.database.engine import now, upsert
from kernelworks_server.profiles import Profile
from kernelworks_server.services import Services, open_services

__all__ = ["measure"]

_KERNELS = 10_000
_VARIANTS = 20
_OWNERS = 200
_DAYS = 30
_DAY = 86_400_000_000
_ASKED = 20  # times
_PAGES = {
    "start page": "/",
    "start page, one owner": "/org150",
    "search, nearly all": "/?q=kernel",
    "search, none": "/?q=zzzz",
    "filter, common": "/?backend=cuda&arch=9.0&torch=2.13",
    "filter, rare": "/?arch=6.1&torch=2.8",
    "a kernel's page": "/org007/kernel-00007",
    "listing API, 100": "/api/kernels?limit=100",
    "listing API, search": "/api/kernels?limit=100&search=9999",
    "simple index, a flavour": "/simple/torch213-cu130/",
    "index read": "/api/kernels/org007/kernel-00007/refs",
}


def measure(scratch: Path, _: int) -> Iterator[Figure]:
    """Milliseconds of each list, by the clock and of the server's CPU time; and how large the database is."""
    root = scratch / "crowd"
    services = open_services(open_config(root))
    _fill(services)
    services.close()
    size = sum(path.stat().st_size for path in root.glob("registry.sqlite*"))
    yield Figure("crowd", f"database of {_KERNELS:,} x {_VARIANTS}", size / 1e6, "MB")
    with processes.registry(root) as server:
        for name, path in _PAGES.items():
            asked = request("GET", path)
            drain(server.port, asked, 2)
            before = server.cpu_seconds()
            took = [_seconds(server.port, asked) for _ in range(_ASKED)]
            yield Figure("crowd", name, median(took) * 1e3, "ms")
            yield Figure("crowd", f"{name}, of CPU time", (server.cpu_seconds() - before) / _ASKED * 1e3, "CPU ms")


def _seconds(port: int, asked: bytes) -> float:
    begun = time.perf_counter()
    drain(port, asked, 1)
    return time.perf_counter() - begun


def _profiles() -> Iterator[Profile]:
    """What kernels are for, by torch version, toolkit and devices: most of them common, the last one rare."""
    archs = (("8.0", "8.6", "9.0"), ("9.0a", "10.0a"), ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"), ("8.0",))
    for minor, stable in itertools.product(range(9, 16), (False, True)):
        torch = FrameworkFacts("torch-stable-abi", (2, minor)) if stable else FrameworkFacts("torch", (2, minor), True)
        yield Profile(torch, BackendFacts("cpu", None))
        for toolkit, devices in itertools.product(((12, 6), (12, 8), (13, 0)), archs):
            yield Profile(torch, BackendFacts("cuda", toolkit, DeviceArchs(devices, ())))
        for toolkit in ((6, 3), (7, 1)):
            yield Profile(torch, BackendFacts("rocm", toolkit, DeviceArchs(("gfx90a", "gfx942"), ())))
    yield Profile(FrameworkFacts("torch", (2, 8), True), BackendFacts("cuda", (12, 6), DeviceArchs(("6.1",), ())))


def _fill(services: Services) -> None:
    """Kernels with a version, what it offers, and downloads; as rows, for to commit each would take an hour."""
    choose = random.Random(1)  # noqa: S311  # the same registry every time
    owners = [f"org{number:03}" for number in range(_OWNERS)]
    for owner in owners:
        services.people.create_org(owner)
    with services.database.write() as connection:
        numbers = services.shelf.profiles.numbers(connection, list(_profiles()))
        *common, rare = (numbers[profile] for profile in _profiles())
        ids = {row.name: row.id for row in connection.execute(select(tables.accounts))}
        upsert(connection, tables.trees, [{"sha256": hash_bytes(trees.EMPTY), "data": trees.EMPTY}])
        rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("repos", "commits", "refs", "shelf", "offers", "downloads")
        }
        for number in range(1, _KERNELS + 1):
            owner = owners[number % _OWNERS]
            chosen = choose.sample(common, _VARIANTS)
            for name, found in _kernel(number, owner, ids[owner], chosen if number % 5_000 else [*chosen[1:], rare]):
                rows[name].append(found)
        for name, found_rows in rows.items():
            connection.execute(insert(tables.metadata.tables[name]), found_rows)


def _kernel(number: int, owner: str, owner_id: int, profiles: list[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(table, row) of everything that is known of one kernel."""
    name, commit, stamp = f"kernel-{number:05}", hash_bytes(str(number).encode())[:40], now()
    keys = {"repo_id": f"{owner}/{name}", "repo_key": f"{owner}/{name}"}
    times = {"created": stamp, "updated": stamp}
    yield "repos", {"id": number, "kind": "kernel", "owner": owner_id, **keys, "private": number % 50 == 0, **times}
    said = {"author": owner, "message": "first", "description": "", "created": stamp}
    yield "commits", {"repo": number, "id": commit, "parent": None, "tree": hash_bytes(trees.EMPTY), **said}
    for branch, version in (("main", None), ("v1", 1)):
        yield "refs", {"repo": number, "kind": "branch", "name": branch, "commit": commit, "message": ""}
        place = {"id": 2 * number + (version or 0), "repo": number, "branch": branch, "version": version}
        yield "shelf", {**place, "commit": commit, "variants": len(profiles), "newest": version is not None}
    for profile in profiles:
        yield "offers", {"shelf": 2 * number + 1, "profile": profile, "project": name}
    for ago in range(_DAYS if number % 3 == 0 else 0):
        yield "downloads", {"repo": number, "day": stamp // _DAY - ago, "variant": "torch-cuda", "count": 3}
