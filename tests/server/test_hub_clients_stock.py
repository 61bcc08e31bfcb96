"""Releases of stock clients, each in an environment of its own, run their whole flows against the real registry."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks.model.digest import hash_file
from kernelworks_server.records import AddFile

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.server

Run = Callable[..., Any]
Environment = Callable[[str], Path]
LARGE = 80 << 20  # more than the 64 MiB of a xorb
UPLOADS = {"hub-1.20": "model", "hub-1.33": "model", "hub-2.3": "kernel", "hub-newest": "kernel"}
"""What kind of repository each release uploads to: those before 2.3 refuse kernels themselves."""
SENT = {"xet": "/xet/", "lfs": "/api/lfs/"}
"""Where each way to upload sends the bytes."""
LOADERS = [*UPLOADS, "kernels-0.17.2"]
KERNEL = {
    "build/torch-cpu/__init__.py": b"def double(x):\n    return x + x\n",
    "build/torch-cpu/metadata.json": json.dumps(
        {"id": "_relu_1", "name": "relu", "version": 1, "license": "MIT"}
        | {"python-depends": [], "backend": {"type": "cpu"}}
    ).encode(),
}


@pytest.fixture(autouse=True)
def _nothing_large_stays(tmp_path: Path) -> Iterator[None]:
    yield
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A binary file of that size that cannot be compressed."""
    path = tmp_path_factory.mktemp("large") / "_ops.abi3.so"
    noise = random.Random(0)
    with path.open("wb") as file:
        for _ in range(LARGE >> 20):
            file.write(b"\x7fELF\0" + noise.randbytes((1 << 20) - 5))
    yield path
    path.unlink()


def digests(root: Path) -> dict[str, tuple[int, str]]:
    return {str(path.relative_to(root)): hash_file(path) for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def relu(server: Server) -> str:
    """A kernel of a trusted organisation; its only version is 1."""
    server.org("acme", trusted=True)
    repositories = server.services.repositories
    repo = repositories.create(server.operator, "kernel", "acme/relu", private=False)
    repositories.create_branch(server.operator, repo, "v1", None)
    files = []
    for path, content in KERNEL.items():
        sha256, size = repositories.receive(repo, [content], expected=None, limit=len(content))
        files.append(AddFile(path, sha256, size, lfs=False))
    return repositories.commit(server.operator, repo, "v1", files, message="publish", description="", parent=None)


WRITE = """
    repo = {"repo_id": arg[0], "repo_type": arg[1]}
    url = api.create_repo(**repo)
    again = api.create_repo(exist_ok=True, **repo)
    uploaded = api.upload_folder(folder_path=arg[2], **repo).oid
    api.create_branch(branch="v1", **repo)
    api.create_tag(tag="v1.0.0", tag_message="first", revision="v1", **repo)
    api.upload_file(path_or_fileobj=b"notes", path_in_repo="docs/notes.txt", revision="v1", **repo)
    api.delete_file("README.md", revision="v1", **repo)
    refs = api.list_repo_refs(**repo)
    print(json.dumps({
        "urls": [str(url), str(again)],
        "refs": {ref.ref: ref.target_commit for ref in refs.branches + refs.tags},
        "uploaded": uploaded,
        "v1": api.repo_info(revision="v1", **repo).sha,
        "tree": [[entry.path, getattr(entry, "size", None)] for entry in api.list_repo_tree(recursive=True, **repo)],
        "files of v1": api.list_repo_files(revision="v1", **repo),
        "exists": [api.file_exists(filename="README.md", revision=name, **repo) for name in ("v1", "v1.0.0")],
    }))
"""
READ = """
    from huggingface_hub import snapshot_download
    print(json.dumps(snapshot_download(arg[0], repo_type=arg[1], revision="v1.0.0")))
"""
DELETE = """
    from huggingface_hub.errors import RepositoryNotFoundError
    repo = {"repo_id": arg[0], "repo_type": arg[1]}
    api.delete_tag(tag="v1.0.0", **repo)
    api.delete_branch(branch="v1", **repo)
    refs = api.list_repo_refs(**repo)
    api.delete_repo(**repo)
    try:
        api.repo_info(**repo)
    except RepositoryNotFoundError:
        print(json.dumps([ref.name for ref in refs.branches + refs.tags]))
"""


@pytest.mark.parametrize("transfer", SENT)
@pytest.mark.parametrize(("release", "kind"), UPLOADS.items(), ids=UPLOADS)
def test_a_release_creates_uploads_branches_reads_and_deletes(
    server: Server,
    run: Run,
    environment: Environment,
    tmp_path: Path,
    large: Path,
    caplog: pytest.LogCaptureFixture,
    release: str,
    kind: str,
    transfer: str,
) -> None:
    python, token = environment(release), server.user("ann")
    source = tmp_path / "source"
    (source / "build").mkdir(parents=True)
    (source / "README.md").write_text("---\nlicense: mit\n---\n# large\n")
    (source / "build" / large.name).hardlink_to(large)
    settings = {"python": python, "HF_HUB_DISABLE_XET": str(int(transfer == "lfs"))}

    with caplog.at_level("INFO", logger="kernelworks_server.requests"):
        told = run(server, tmp_path / "home", WRITE, "ann/large", kind, str(source), token=token, **settings)
    asked = [record.facts["path"] for record in caplog.records if hasattr(record, "facts")]
    there = Path(run(server, tmp_path / "reader", READ, "ann/large", kind, token=None, **settings))
    left = run(server, tmp_path / "home", DELETE, "ann/large", kind, token=token, **settings)

    path = "kernels/ann/large" if kind == "kernel" else "ann/large"
    readme, binary = ("README.md", (source / "README.md").stat().st_size), (f"build/{large.name}", LARGE)
    assert told["urls"] == [f"{server.url}/{path}"] * 2
    assert told["refs"] == {"refs/heads/main": told["uploaded"], "refs/heads/v1": told["v1"]} | {
        "refs/tags/v1.0.0": told["uploaded"]
    }
    assert told["tree"] == [[*readme], ["build", None], [*binary]]
    assert told["files of v1"] == [f"build/{large.name}", "docs/notes.txt"]
    assert told["exists"] == [False, True]
    assert [path for path in asked if path.startswith(SENT[transfer])]
    assert not [path for path in asked if path.startswith(SENT["xet" if transfer == "lfs" else "lfs"])]
    assert digests(there) == digests(source)
    assert left == ["main"]


LOAD = """
    import kernels, torch
    kernel = kernels.get_kernel("acme/relu", version=1)
    print(json.dumps(kernel.double(torch.ones(2)).tolist()))
"""


@pytest.mark.parametrize("release", LOADERS)
def test_the_stock_loader_gets_a_kernel_over_every_release(
    server: Server, run: Run, environment: Environment, tmp_path: Path, relu: str, release: str
) -> None:
    loaded = run(server, tmp_path / "home", LOAD, token=None, python=environment(release))

    assert loaded == [2.0, 2.0]
    assert list((tmp_path / "home").rglob(relu))  # that very commit


def test_the_stock_program_tells_versions_locks_downloads_and_sees_no_signature(
    server: Server, environment: Environment, tmp_path: Path, relu: str
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.kernels.dependencies]\n"acme/relu" = 1\n')
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}

    def kernels(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [str(environment("kernels-0.17.2").with_name("kernels")), *arguments],
            env={**clean, "HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    versions = kernels("versions", "acme/relu")
    info = json.loads(kernels("info", "acme/relu", "--json"))
    kernels("lock", str(tmp_path))
    kernels("download", str(tmp_path), "--all-variants")
    refused = kernels("verify-signature", "acme/relu", "1", code=1)
    skipped = kernels("verify-signature", "--filter-unsigned", "acme/relu", "1")

    assert "Version 1" in versions
    assert "torch-cpu" in versions
    assert (info["name"], info["version"], info["backends"]) == ("relu", 1, ["cpu"])
    assert relu in (tmp_path / "kernels.lock").read_text()
    downloaded = next((tmp_path / "home").rglob(relu)) / "build/torch-cpu/__init__.py"
    assert downloaded.read_bytes() == KERNEL["build/torch-cpu/__init__.py"]
    assert "torch-cpu: cannot verify kernel integrity, signature not found" in refused
    assert skipped == ""
