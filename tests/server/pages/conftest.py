"""Kernels to look at: real commits of a real registry, whose indexes tell of wheels that nobody downloads."""

from __future__ import annotations

import dataclasses
import html
import http.client
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import pytest

from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.index import Index, Source
from kernelworks.model.variant import (
    BackendFacts,
    DeviceArchs,
    FrameworkFacts,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks_server.errors import RevisionNotFound
from kernelworks_server.records import AddFile, DeleteFile, Repo

if TYPE_CHECKING:
    from conftest import Server  # type: ignore[import-not-found]

BASE = Variant(
    name="",
    id="_demo_1a2b3c4d",
    framework=FrameworkFacts("torch-stable-abi", (2, 11)),
    backend=BackendFacts("cpu", None),
    python_abi=PythonAbi("abi3", (3, 10)),
    platform=Platform("x86_64", "linux", (2, 28)),
    libraries=("libc.so.6",),
    torch_symbols=TorchSymbols(()),
    python_depends=(),
    wheel=FileEntry("", 0, ""),
    package="demo",
    files=(),
    lock="0" * 64,
    hermetic=True,
)


@dataclass(frozen=True)
class Answer:
    """What the registry sent."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def words(self) -> str:
        """The page as it is read; code stands in backticks."""
        return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"</?code[^>]*>", "`", self.text)))


@dataclass(frozen=True)
class Site:
    """A registry with ways to fill it and to look at it."""

    server: Server

    def repo(self, repo_id: str, *, private: bool = False, kind: str = "kernel") -> Repo:
        """The repository of this id, new; its organisation is made where there is none."""
        owner = repo_id.partition("/")[0]
        if not any(account.name == owner for account in self.server.services.people.accounts("org")):
            self.server.services.people.create_org(owner)
        made: Repo = self.server.services.repositories.create(self.server.operator, kind, repo_id, private=private)
        return made

    def commit(self, repo: Repo, branch: str, files: Mapping[str, bytes | None], message: str = "publish") -> str:
        """The commit that writes `files`, or deletes those that are None; the branch starts at `main`."""
        repositories = self.server.services.repositories
        try:
            repositories.resolve_revision(repo, branch)
        except RevisionNotFound:
            repositories.create_branch(self.server.operator, repo, branch, None)
        operations: list[AddFile | DeleteFile] = []
        for path, data in files.items():
            if data is None:
                operations.append(DeleteFile(path))
            else:
                sha256, size = repositories.receive(repo, [data], expected=None, limit=1 << 24)
                operations.append(AddFile(path, sha256, size, lfs=False))
        made: str = repositories.commit(
            self.server.operator, repo, branch, operations, message=message, description="", parent=None
        )
        return made

    def get(self, path: str, *, token: str | None = None, cookie: str | None = None) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._ask("GET", path, headers | ({"Cookie": cookie} if cookie else {}), None)

    def post(self, path: str, headers: Mapping[str, str] | None = None, **fields: str) -> Answer:
        return self._ask("POST", path, headers or {}, urlencode(fields).encode())

    def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.server.url).netloc, timeout=30)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            connection.close()


@pytest.fixture
def site(server: Server) -> Site:
    return Site(server)


def _variant(
    name: str, *, size: int = 250_000, archs: tuple[str, ...] = (), ptx: tuple[str, ...] = (), **facts: object
) -> Variant:
    """A variant whose wheel has a SHA-256 of its own; `archs` are of machine code."""
    made = dataclasses.replace(BASE, name=name, **facts)  # type: ignore[arg-type]
    backend = dataclasses.replace(made.backend, archs=DeviceArchs(archs, ptx))
    wheel = FileEntry(f"wheels/demo-{name}.whl", size, hash_bytes(f"{name} {size}".encode()))
    return dataclasses.replace(made, backend=backend, wheel=wheel)


@pytest.fixture
def variant() -> Callable[..., Variant]:
    return _variant


@pytest.fixture
def index() -> Callable[..., bytes]:
    """The bytes of an index of a version with these variants."""

    def made(version: int, *variants: Variant, **facts: str) -> bytes:
        source = Source("ab" * 32, "c0ffee" * 6 + "c0ff", dirty=False)
        return Index(
            name=facts.get("name", "demo"),
            version=version,
            license=facts.get("license", "Apache-2.0"),
            source=source,
            builder=facts.get("builder", "kernelworks 0.1.0"),
            variants=variants,
        ).to_bytes()

    return made
