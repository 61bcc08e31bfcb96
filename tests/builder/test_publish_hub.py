"""Publishing to a server: one commit or none, whoever else publishes and whenever the process dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, HfApi

from kernelworks.errors import RepositoryError, TransportError
from kernelworks.transport import connect, read_revision
from kernelworks.transport.directory_layout import listed_files
from kernelworks.transport.hub import HubTransport
from kernelworks.transport.revision import Ref, Revision
from kernelworks.verify import remote_faults
from kernelworks_build.errors import PublishError
from kernelworks_build.publish import publish
from kernelworks_server.config import open_config
from kernelworks_server.services import open_services

pytestmark = pytest.mark.server

MakeDist = Callable[..., Path]
PROGRAM = [sys.executable, "-c", "from kernelworks_server.cli import main; main()"]
ORG = "demo"
_numbers = count()


@dataclass(frozen=True)
class Registry:
    """A registry that runs, and tokens for its organisation `demo`."""

    url: str
    root: Path
    writer: str
    reader: str

    def requests(self) -> list[str]:
        """The path of every request so far."""
        entries = map(json.loads, (self.root / "log").read_text().splitlines())
        return [entry["path"] for entry in entries if entry["message"] == "request"]

    def api(self) -> HfApi:
        return HfApi(self.url, token=self.writer)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    root = tmp_path_factory.mktemp("registry")
    services = open_services(open_config(root))
    services.people.create_user("ada")
    services.people.create_org(ORG)
    services.people.add_member(ORG, "ada", "write")
    tokens = [services.people.create_token("ada", label=scope, scope=scope) for scope in ("write", "read")]
    services.close()
    serve = [*PROGRAM, "serve", "--root", str(root), "--port", "0", "--json"]
    with (
        (root / "log").open("w") as log,
        subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        told = ""
        for line in process.stdout:
            told += line
            if line == "}\n":
                break
        yield Registry(json.loads(told)["url"], root, *tokens)
        process.terminate()


@pytest.fixture
def registry(running: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The registry, and `ada` is logged in."""
    monkeypatch.setenv("HF_TOKEN", running.writer)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return running


@pytest.fixture
def repo_id() -> str:
    """A repository that nobody has published."""
    return f"{ORG}/toy-{next(_numbers)}"


def check_served(registry: Registry, repo_id: str, commit: str) -> set[str]:
    """Names of the variants of a revision, of which the registry has every byte and nothing else."""
    transport = connect(registry.url)
    index = read_revision(transport, repo_id, commit)[1]
    assert not list(remote_faults(listed_files(index), lambda entry: transport.open(repo_id, commit, entry)))
    there = set(registry.api().list_repo_files(repo_id, repo_type="kernel", revision=commit))
    assert there - {entry.path for entry in listed_files(index)} == {"kernel.json", "README.md"}
    return {variant.backend.kind for variant in index.variants}


def test_a_published_revision_is_read_back_by_version_and_by_commit(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path
) -> None:
    done = publish(make_dist(tmp_path, "cpu"), registry.url, repo_id)
    transport = HubTransport(registry.url)
    assert (done.before, done.version, done.changed) == (None, 1, True)
    assert transport.versions(repo_id) == {1: Ref(done.commit)}
    assert {transport.read_index(repo_id, revision).commit for revision in ("v1", done.commit)} == {done.commit}
    assert set(transport.branches(repo_id)) == {"main", "v1"}
    assert check_served(registry, repo_id, done.commit) == {"cpu"}


def test_publishing_the_same_again_changes_nothing(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path
) -> None:
    dist = make_dist(tmp_path, "cpu")
    first = publish(dist, registry.url, repo_id)
    second = publish(dist, registry.url, repo_id)
    assert (second.commit, second.before, second.changed) == (first.commit, first.commit, False)


def test_variants_of_the_same_sources_join_and_the_older_revision_stays(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path
) -> None:
    first = publish(make_dist(tmp_path / "one", "cpu"), registry.url, repo_id)
    second = publish(make_dist(tmp_path / "two", "metal"), registry.url, repo_id)
    assert second.before == first.commit
    assert check_served(registry, repo_id, second.commit) == {"cpu", "metal"}
    assert check_served(registry, repo_id, first.commit) == {"cpu"}


def test_variants_of_other_sources_are_left_behind_and_named(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path
) -> None:
    publish(make_dist(tmp_path / "one", "cpu"), registry.url, repo_id)
    done = publish(make_dist(tmp_path / "two", "metal", digest="1" * 64), registry.url, repo_id)
    assert done.left_behind == ("torch-stable-abi211-cpu-x86_64-linux",)
    assert check_served(registry, repo_id, done.commit) == {"metal"}


def test_variants_of_another_builder_are_left_behind_and_named(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path
) -> None:
    api = registry.api()
    api.create_repo(repo_id, repo_type="kernel")
    api.create_branch(repo_id, branch="v1", repo_type="kernel")
    foreign = CommitOperationAdd("build/torch-cpu/metadata.json", b"{}")
    api.create_commit(repo_id, [foreign], commit_message="x", repo_type="kernel", revision="v1")
    done = publish(make_dist(tmp_path, "cpu"), registry.url, repo_id)
    assert done.left_behind == ("torch-cpu",)
    assert check_served(registry, repo_id, done.commit) == {"cpu"}


def test_whoever_was_overtaken_is_told_to_publish_again(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(make_dist(tmp_path / "one", "cpu"), registry.url, repo_id)
    late = make_dist(tmp_path / "late", "metal")
    create_commit = HfApi.create_commit

    def overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(HfApi, "create_commit", create_commit)
        publish(make_dist(tmp_path / "quick", "xpu"), registry.url, repo_id)
        return create_commit(*arguments, **options)

    monkeypatch.setattr(HfApi, "create_commit", overtaken)
    with pytest.raises(PublishError, match=r"has changed in registry .*; nothing was published: run the command again"):
        publish(late, registry.url, repo_id)
    done = publish(late, registry.url, repo_id)
    assert check_served(registry, repo_id, done.commit) == {"cpu", "metal", "xpu"}


def test_publishers_at_once_that_run_again_end_with_every_variant(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path
) -> None:
    backends = ["cpu", "metal", "rocm", "xpu"]
    dists = [make_dist(tmp_path / backend, backend) for backend in backends]

    def overtaken(dist: Path) -> bool:
        try:
            publish(dist, registry.url, repo_id)
        except PublishError as error:
            assert "run the command again" in str(error)  # noqa: PT017  # which of them, nobody knows
            return True
        return False

    def insist(dist: Path) -> None:
        assert not all(overtaken(dist) for _ in backends)

    with ThreadPoolExecutor(len(dists)) as pool:
        list(pool.map(insist, dists))
    assert check_served(registry, repo_id, connect(registry.url).versions(repo_id)[1].commit) == set(backends)
    assert set(HubTransport(registry.url).branches(repo_id)) == {"main", "v1"}


@pytest.mark.parametrize(("step", "nth"), [("create_branch", 1), ("create_commit", 1), ("create_branch", 2)])
def test_a_publisher_that_dies_on_the_way_leaves_no_version(
    make_dist: MakeDist,
    registry: Registry,
    repo_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    nth: int,
) -> None:
    dist = make_dist(tmp_path, "cpu")
    calls = count(1)
    wrapped = getattr(HfApi, step)

    def dying(*arguments: Any, **options: Any) -> Any:
        if next(calls) == nth:
            raise KeyboardInterrupt
        return wrapped(*arguments, **options)

    monkeypatch.setattr(HfApi, step, dying)
    with pytest.raises(KeyboardInterrupt):
        publish(dist, registry.url, repo_id)
    with pytest.raises(RepositoryError, match="has no version"):
        connect(registry.url).versions(repo_id)
    assert check_served(registry, repo_id, publish(dist, registry.url, repo_id).commit) == {"cpu"}


def test_who_may_not_write_is_told_what_to_do(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dist = make_dist(tmp_path, "cpu")
    for token, hint in [
        ("", "set HF_TOKEN to a token of this registry that may write"),
        (registry.reader, f"does the token have the right to write to `{repo_id}`"),
        ("kw_nonsense", "set HF_TOKEN to one of this registry"),
    ]:
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises((PublishError, TransportError), match=hint):
            publish(dist, registry.url, repo_id)
    monkeypatch.setenv("HF_TOKEN", registry.writer)
    publish(dist, registry.url, repo_id)
    monkeypatch.setenv("HF_TOKEN", registry.reader)
    (dist / "README.md").write_text("# new\n")
    with pytest.raises(PublishError, match="does the token have the right to write"):
        publish(dist, registry.url, repo_id)


def test_a_registry_that_serves_another_index_than_it_was_sent_is_told(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HubTransport, "read_index", lambda _self, repo_id, revision: Revision(repo_id, revision, b"{}"))
    with pytest.raises(TransportError, match=r"serves another `kernel\.json`"):
        publish(make_dist(tmp_path, "cpu"), registry.url, repo_id)


def test_a_card_that_the_registry_refuses_is_told(
    make_dist: MakeDist, registry: Registry, repo_id: str, tmp_path: Path
) -> None:
    dist = make_dist(tmp_path, "cpu", card="---\ntags: [\n---\n# toy\n")
    with pytest.raises(PublishError, match=r"README\.md"):
        publish(dist, registry.url, repo_id)
    with pytest.raises(RepositoryError, match="has no version"):
        connect(registry.url).versions(repo_id)


@pytest.mark.sandbox
def test_a_built_kernel_is_published_and_loaded_by_ours_and_by_the_kernels_package(
    registry: Registry, project: Path, kernel_build: Callable[..., Any], tmp_path: Path
) -> None:
    repo_id = f"{ORG}/silu-and-mul"
    fresh = {"HF_HOME": str(tmp_path / "home"), "KERNELWORKS_CACHE": str(tmp_path / "cache")}
    done = kernel_build("publish", project, "--to", repo_id, "--registry", registry.url, "--json", env=fresh)
    assert (done.code, done.stderr) == (0, "")
    again = kernel_build("publish", project, "--to", repo_id, "--registry", registry.url, env=fresh)
    assert "is there already" in again.stderr
    same = (
        "import torch; x = torch.randn(4, 8);"
        "torch.testing.assert_close(kernel.silu_and_mul(x), torch.nn.functional.silu(x[:, :4]) * x[:, 4:])"
    )
    for package, variable in (("kernelworks", "KERNELWORKS_REGISTRY"), ("kernels", "HF_ENDPOINT")):
        before = len(registry.requests())
        get = f"from {package} import get_kernel; kernel = get_kernel({repo_id!r}, version=1, trust_remote_code=True)"
        env = {**os.environ, **fresh, variable: registry.url}
        run = [sys.executable, "-c", f"{get};{same}"]
        loaded = subprocess.run(run, env=env, capture_output=True, text=True, check=False)
        assert loaded.returncode == 0, loaded.stderr
        if package == "kernelworks":
            assert [path.rpartition(".")[2] for path in registry.requests()[before:]] == ["json", "whl"]
