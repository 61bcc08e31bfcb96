"""Stock clients in processes of their own, with a fresh HF_HOME, against the real registry."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks_server.config import Limits

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.server

Run = Callable[..., Any]
LARGE = 8 << 20


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def read_tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def blobs_of(server: Server) -> set[str]:
    return {path.name for path in (server.root / "objects" / "sha256").rglob("*") if path.is_file()}


KERNEL = {
    "README.md": b"---\nlicense: mit\ntags: [kernel]\n---\n# a kernel\n",
    "build/torch-cpu/__init__.py": b"def double(x):\n    return x + x\n",
    "build/torch-cpu/a b%+ \xc3\xbc.txt".encode("latin-1").decode(): b"blanks, signs and letters\n",
    "empty": b"",
}
UPLOAD = """
    api.create_repo(arg[0], repo_type="kernel", exist_ok=True)
    print(json.dumps(api.upload_folder(repo_id=arg[0], repo_type="kernel", folder_path=arg[1]).oid))
"""
DOWNLOAD = """
    from huggingface_hub import snapshot_download
    print(json.dumps(snapshot_download(arg[0], repo_type="kernel")))
"""


@pytest.mark.parametrize("xet", ["0", "1"], ids=["xet", "lfs"])
def test_a_folder_is_uploaded_twice_stored_once_and_downloaded_byte_for_byte(
    server: Server, run: Run, tmp_path: Path, xet: str
) -> None:
    random = os.urandom(LARGE // 2)
    large = b"\x7fELF\0" + random + bytes(LARGE // 2) + random[: LARGE // 4]  # stored, compressed and repeated chunks
    source = write_tree(tmp_path / "source", {**KERNEL, "build/torch-cpu/_ops.abi3.so": large})
    token, home = server.user("ann"), tmp_path / "home"

    first = run(server, home, UPLOAD, "ann/relu", str(source), token=token, HF_HUB_DISABLE_XET=xet)
    stored = blobs_of(server)
    second = run(server, home, UPLOAD, "ann/relu", str(source), token=token, HF_HUB_DISABLE_XET=xet)
    there = run(server, tmp_path / "other", DOWNLOAD, "ann/relu", token=None)

    assert first == second
    assert blobs_of(server) == stored
    assert read_tree(Path(there)) == read_tree(source)


def test_xet_sends_a_file_again_to_another_repository_and_only_the_changes_to_the_same(
    server: Server, run: Run, tmp_path: Path
) -> None:
    """The client's memory of what it sent is kept apart per repository, so that no shard refers into the void."""
    source = write_tree(tmp_path / "source", {"large.bin": b"\0" + os.urandom(2 << 20)})
    token, home = server.user("ann"), tmp_path / "home"
    run(server, home, UPLOAD, "ann/one", str(source), token=token)
    run(server, home, UPLOAD, "ann/two", str(source), token=token)
    before = blobs_of(server)
    with (source / "large.bin").open("ab") as file:
        file.write(b"more")
    run(server, home, UPLOAD, "ann/two", str(source), token=token)
    there = run(server, tmp_path / "other", DOWNLOAD, "ann/two", token=None)

    sizes = sorted(
        (server.root / "objects/sha256" / name[:2] / name).stat().st_size for name in blobs_of(server) - before
    )
    assert read_tree(Path(there)) == read_tree(source)
    assert len(sizes) == 2
    assert sizes[0] < 1 << 20 < sizes[1]  # a xorb with the last chunk, and the file


def test_a_registry_that_was_wiped_takes_the_upload_of_a_client_that_remembers_the_old_one(
    start_server: Callable[..., AbstractContextManager[Server]], run: Run, tmp_path: Path
) -> None:
    source = write_tree(tmp_path / "source", {"large.bin": b"\0" + os.urandom(2 << 20)})
    with start_server() as server:
        address = server.url
        run(server, tmp_path / "home", UPLOAD, "ann/one", str(source), token=server.user("ann"))
    (tmp_path / "registry").rename(tmp_path / "gone")
    with start_server(port=int(address.rpartition(":")[2])) as server:
        assert server.url == address
        run(server, tmp_path / "home", UPLOAD, "ann/one", str(source), token=server.user("ann"))
        there = run(server, tmp_path / "other", DOWNLOAD, "ann/one", token=None)

    assert read_tree(Path(there)) == read_tree(source)


def test_trees_come_in_pages_and_revisions_may_hold_a_slash(
    start_server: Callable[..., AbstractContextManager[Server]], run: Run, tmp_path: Path
) -> None:
    source = write_tree(tmp_path / "source", {f"d{n // 4}/f {n}+%.txt": b"%d" % n for n in range(10)})
    with start_server(Limits(page=3)) as server:
        listed = run(
            server,
            tmp_path / "home",
            """
            api.create_repo("ann/m", repo_type="model")
            api.create_branch("ann/m", branch="feature/x")
            api.upload_folder(repo_id="ann/m", folder_path=arg[0], revision="feature/x")
            tree = [entry.path for entry in api.list_repo_tree("ann/m", recursive=True, revision="feature/x")]
            folder = [entry.path for entry in api.list_repo_tree("ann/m", "d1", revision="feature/x")]
            info = api.get_paths_info("ann/m", ["d0/f 0+%.txt", "d2", "gone"], revision="feature/x")
            names = [sibling.rfilename for sibling in api.model_info("ann/m", revision="feature/x").siblings]
            commits = [commit.title for commit in api.list_repo_commits("ann/m", revision="feature/x")]
            models = [model.id for model in api.list_models(author="ann")]
            print(json.dumps([tree, folder, [entry.path for entry in info], names, commits, models]))
            """,
            str(source),
            token=server.user("ann"),
        )

    tree, folder, info, names, commits, models = listed
    assert tree == sorted({*read_tree(source), "d0", "d1", "d2"})
    assert folder == [f"d1/f {n}+%.txt" for n in range(4, 8)]
    assert info == ["d0/f 0+%.txt", "d2"]
    assert names == sorted(read_tree(source))
    assert commits == ["Upload folder using huggingface_hub", "initial commit"]
    assert models == ["ann/m"]


@pytest.mark.backing("sqlite+folder", "postgresql+s3")
def test_branches_tags_copies_and_deletions_do_what_the_client_says(server: Server, run: Run, tmp_path: Path) -> None:
    told = run(
        server,
        tmp_path / "home",
        """
        from huggingface_hub import CommitOperationCopy, CommitOperationDelete
        from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
        repo = {"repo_id": "ann/relu", "repo_type": "kernel"}
        api.create_repo(**repo)
        api.upload_file(path_or_fileobj=b"one", path_in_repo="dir/a.txt", **repo)
        api.upload_file(path_or_fileobj=b"\\0" * 2_000_000, path_in_repo="dir/b.bin", **repo)
        api.create_branch(branch="v1", **repo)
        api.create_branch(branch="v1", exist_ok=True, **repo)
        api.create_tag(tag="v1.0.0", tag_message="first", revision="v1", **repo)
        copies = [CommitOperationCopy("dir/a.txt", "a.txt"), CommitOperationCopy("dir/b.bin", "b.bin")]
        api.create_commit(operations=[*copies, CommitOperationDelete("dir/")], commit_message="move", **repo)
        moved = api.list_repo_files(**repo)
        old = api.list_repo_files(revision="v1.0.0", **repo)
        stale = None
        try:
            head = api.kernel_info("ann/relu", revision="v1").sha
            api.upload_file(path_or_fileobj=b"x", path_in_repo="c", parent_commit=head, **repo)
        except HfHubHTTPError as error:
            stale = error.response.status_code
        api.delete_tag(tag="v1.0.0", **repo)
        api.delete_branch(branch="v1", **repo)
        refs = api.list_repo_refs(**repo)
        api.delete_repo(**repo)
        gone = False
        try:
            api.kernel_info("ann/relu")
        except RepositoryNotFoundError:
            gone = True
        print(json.dumps([moved, old, stale, [ref.name for ref in refs.branches + refs.tags], gone]))
        """,
        token=server.user("ann"),
    )

    moved, old, stale, refs, gone = told
    assert moved == ["a.txt", "b.bin"]
    assert old == ["dir/a.txt", "dir/b.bin"]
    assert stale == 412
    assert refs == ["main"]
    assert gone is True


def test_a_readme_with_broken_metadata_is_refused_in_words(server: Server, run: Run, tmp_path: Path) -> None:
    words = run(
        server,
        tmp_path / "home",
        """
        repo = {"repo_id": "ann/relu", "repo_type": "kernel"}
        api.create_repo(**repo)
        try:
            api.upload_file(path_or_fileobj=b"---\\na: [\\n---\\n", path_in_repo="README.md", **repo)
        except ValueError as error:
            print(json.dumps(str(error)))
        """,
        token=server.user("ann"),
    )

    assert "not YAML" in words


PUBLISH = """
    repo = {"repo_id": arg[0], "repo_type": "kernel"}
    api.create_repo(**repo)
    api.create_branch(branch="v1", **repo)
    api.upload_folder(folder_path=arg[1], revision="v1", **repo)
    print("null")
"""
LOAD = """
    import kernels, torch
    kernel = kernels.get_kernel(arg[0], version=1, trust_remote_code=json.loads(arg[1]))
    print(json.dumps(kernel.double(torch.ones(2)).tolist()))
"""


def test_stock_kernels_loads_what_was_uploaded_and_asks_whom_to_trust(server: Server, run: Run, tmp_path: Path) -> None:
    metadata = {"id": "_relu_1", "name": "relu", "version": 1, "license": "MIT", "python-depends": []}
    document = json.dumps({**metadata, "backend": {"type": "cpu"}}).encode()
    source = write_tree(tmp_path / "source", {**KERNEL, "build/torch-cpu/metadata.json": document})
    token = server.user("ann")
    server.org("acme", trusted=True, ann="write")
    run(server, tmp_path / "home", PUBLISH, "ann/relu", str(source), token=token)
    run(server, tmp_path / "home", PUBLISH, "acme/relu", str(source), token=token)

    told = run(server, tmp_path / "reader", LOAD, "ann/relu", "true", token=None)
    trusted = run(server, tmp_path / "reader", LOAD, "acme/relu", "false", token=None)

    assert told == trusted == [2.0, 2.0]
    with pytest.raises(AssertionError, match="trust"):
        run(server, tmp_path / "reader", LOAD, "ann/relu", "false", token=None)


def test_stock_kernels_asks_no_more_than_it_must(
    server: Server, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Refs, the tree of `build`, HEAD and GET of each file, the whole tree; once per home the list of harnesses."""
    metadata = {"id": "_relu_1", "name": "relu", "version": 1, "license": "MIT", "python-depends": []}
    document = json.dumps({**metadata, "backend": {"type": "cpu"}}).encode()
    source = write_tree(tmp_path / "source", {**KERNEL, "build/torch-cpu/metadata.json": document})
    run(server, tmp_path / "home", PUBLISH, "ann/relu", str(source), token=server.user("ann"))

    with caplog.at_level("INFO", logger="kernelworks_server.requests"):
        run(server, tmp_path / "reader", LOAD, "ann/relu", "true", token=None)

    asked = [record.facts for record in caplog.records if hasattr(record, "facts")]
    files = len([name for name in read_tree(source) if name.startswith("build/torch-cpu/")])
    assert {facts["status"] for facts in asked} == {200}
    assert len(asked) == 1 + 3 + 2 * files


def test_a_download_that_is_cut_off_goes_on_where_it_was(
    server: Server, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 24 << 20  # the client keeps what it has in steps of 10 MiB
    source = write_tree(tmp_path / "source", {"large.bin": b"\0" + os.urandom(size - 1)})
    run(server, tmp_path / "home", UPLOAD, "ann/one", str(source), token=server.user("ann"))
    read = server.services.blobs.read
    starts: list[int] = []

    def read_and_break_once(sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        blocks = read(sha256, start, stop)
        starts.append(start)
        yield from blocks if len(starts) > 1 else islice(blocks, 12)
        if len(starts) == 1:
            raise ConnectionError("the cable was pulled")

    monkeypatch.setattr(server.services.blobs, "read", read_and_break_once)
    there = run(server, tmp_path / "other", DOWNLOAD, "ann/one", token=None)

    assert read_tree(Path(there)) == read_tree(source)
    assert starts[0] == 0 < starts[1] < size
