"""Our loader against the real registry: what other builders publish, and what a registry has to say of a kernel."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks import RepositoryError, TrustError, api, get_kernel, host, load, selection
from kernelworks.backends.spec import HostBackend
from kernelworks.host import HostEnv, Libc
from kernelworks_server.config import Limits
from kernelworks_server.errors import Conflict
from kernelworks_server.records import AddFile

if TYPE_CHECKING:
    from conftest import Server  # type: ignore[import-not-found]

pytestmark = pytest.mark.server

HOST = HostEnv(
    python=sys.version_info[:2],
    implementation="cpython",
    free_threaded=False,
    torch="2.13.0+cpu",
    cxx11=True,
    backends=(HostBackend("cpu"),),
    cpu="x86_64",
    os="linux",
    libc=Libc("glibc", (2, 36)),
)
SOURCES = {"__init__.py": b"from .ops import double\n", "ops.py": b"def double(x):\n    return x + x\n"}
LARGE = {**SOURCES, "table.bin": b"0123456789" * 1000}


@pytest.fixture
def requests(asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths that a loader with an empty cache, in a process without torch, asks for."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "KERNELWORKS_POLICY", "LOCAL_KERNELS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("KERNELWORKS_CACHE", "HF_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(host, "detect", lambda: HOST)
    yield asked
    selection._said.clear()
    for name in list(load._kernels):
        load._forget(name)


def kernel(server: Server, repo_id: str = "ann/relu") -> Any:
    """What a new process would get."""
    api._modules.clear()
    return get_kernel(repo_id, registry=server.url, trust_remote_code=True)


def publish(server: Server, token: str, version: int, sources: Mapping[str, bytes], repo_id: str = "ann/relu") -> str:
    """A revision as other builders write it."""
    repositories, actor = server.services.repositories, server.services.people.actor(token)
    digests = {path: base64.b64encode(hashlib.sha256(data).digest()).decode() for path, data in sources.items()}
    metadata = {
        "id": f"_relu_cpu_{version}",
        "python-depends": [],
        "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha256", "files": digests},
    }
    files = {**sources, "metadata.json": json.dumps(metadata).encode()}
    with contextlib.suppress(Conflict):
        repositories.create(actor, "kernel", repo_id, private=False)
    repo = repositories.get(actor, "kernel", repo_id)
    repositories.create_branch(actor, repo, f"v{version}", None)
    added = [
        AddFile(
            f"build/torch-cpu/{path}",
            *repositories.receive(repo, [data], expected=None, limit=1 << 20),
            lfs=len(data) > 1000,
        )
        for path, data in files.items()
    ]
    return str(repositories.commit(actor, repo, f"v{version}", added, message="m", description="", parent=None))


def test_a_kernel_of_another_builder_is_listed_verified_and_loaded(server: Server, requests: list[str]) -> None:
    commit = publish(server, server.user("ann"), 1, LARGE)
    assert kernel(server).double(2) == 4
    assert requests[:4] == [
        "/api/kernels/ann/relu/refs",
        f"/kernels/ann/relu/resolve/{commit}/kernel.json",
        f"/api/kernels/ann/relu/tree/{commit}/build?recursive=true",
        f"/kernels/ann/relu/resolve/{commit}/build/torch-cpu/metadata.json",
    ]
    assert len(requests) == 4 + len(LARGE)
    requests.clear()
    kernel(server)
    assert requests == ["/api/kernels/ann/relu/refs"]


def test_a_long_list_comes_in_pages(start_server: Any, requests: list[str]) -> None:
    with start_server(Limits(page=2)) as server:
        publish(server, server.user("ann"), 1, LARGE)
        assert kernel(server).double(2) == 4
    assert sum("/tree/" in path for path in requests) == 3


@pytest.mark.usefixtures("requests")
def test_a_yanked_version_is_passed_over_and_told_to_who_names_it(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    token = server.user("ann")
    publish(server, token, 1, SOURCES)
    commit = publish(server, token, 2, {**SOURCES, "ops.py": b"def double(x):\n    return 3 * x\n"})
    repositories, actor = server.services.repositories, server.services.people.actor(token)
    repo = repositories.get(actor, "kernel", "ann/relu")
    repositories.yank(actor, repo, "v2", "it triples; 50% off")
    repositories.deprecate(actor, repo, "use `ann/gelu`", None)
    with caplog.at_level(logging.WARNING):
        assert kernel(server).double(2) == 4
        assert get_kernel("ann/relu", version=2, registry=server.url, trust_remote_code=True).double(2) == 6
    assert f"commit `{commit}` of `ann/relu` was yanked: it triples; 50% off" in caplog.text
    assert caplog.text.count("`ann/relu` is deprecated: use `ann/gelu`") == 1


@pytest.mark.usefixtures("requests")
def test_a_renamed_kernel_is_found_by_its_old_name(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    token = server.user("ann")
    publish(server, token, 1, SOURCES)
    repositories, actor = server.services.repositories, server.services.people.actor(token)
    repositories.rename(actor, "kernel", "ann/relu", "ann/rectify")
    assert kernel(server).double(2) == 4
    assert f"`ann/relu` is now `ann/rectify` in registry `{server.url}`" in caplog.text
    with pytest.raises(RepositoryError, match="shows no repository `ann/none`"):
        kernel(server, "ann/none")


def test_a_version_is_not_sent_again_if_it_has_not_changed(server: Server) -> None:
    commit = publish(server, server.user("ann"), 1, SOURCES)
    path = "/kernels/ann/relu/resolve/v1/build/torch-cpu/ops.py"
    first = server.ask("GET", path)
    again = server.ask("GET", path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body, again.headers["X-Repo-Commit"]) == (304, b"", commit)
    assert server.ask("GET", path, headers={"If-None-Match": '"other"'}).body == SOURCES["ops.py"]


def test_code_of_a_publisher_that_the_registry_trusts_needs_no_consent(server: Server, requests: list[str]) -> None:
    token = server.user("ann")
    server.org("team", ann="write")
    publish(server, token, 1, SOURCES, "team/relu")
    with pytest.raises(TrustError):
        get_kernel("team/relu", registry=server.url)
    server.services.people.set_trusted("team", True)
    assert get_kernel("team/relu", registry=server.url).double(2) == 4
    assert requests.count("/api/organizations/team/overview") == 1, "at first it was said with the index"
