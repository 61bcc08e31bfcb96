from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks.errors import RepositoryError, TransportError, UsageError, VerifyError
from kernelworks.model.digest import FileEntry
from kernelworks.transport import connect, read_revision
from kernelworks.transport import directory_layout as layout
from kernelworks.transport.revision import Ref

BAD_IDS = [
    "", "relu", "/", "a/", "/b", "a/b/c", "../../etc", "../a", "a/..", "a/b..c", ".a/b", "-a/b", "a/b/",
    "läb/ünï", "a b/c", "a/b\n", "a\\b/c", "a/b\0", "x" * 97 + "/b", "hf://a/b",
]  # fmt: skip


@pytest.mark.parametrize("repo_id", [*BAD_IDS, None, 3, b"a/b"])
def test_a_bad_repository_id_is_refused_before_anything_is_read(tmp_path: Path, repo_id: Any) -> None:
    transport = connect(tmp_path)
    tmp_path.rmdir()  # reading anything would now be another error
    for call in (
        transport.versions,
        lambda bad: transport.read_index(bad, "v1"),
        lambda bad: layout.repo_folder(tmp_path, bad),
    ):
        with pytest.raises(UsageError, match="is not a repository id"):
            call(repo_id)


@pytest.mark.parametrize("revision", ["", "..", "../x", "a/b", "v1\n", "ü", None, 1])
def test_a_bad_revision_is_refused(registry: Any, pack: Callable[..., Any], revision: Any) -> None:
    registry.publish("org/demo", 1, pack())
    with pytest.raises(UsageError, match="is not a revision"):
        connect(registry.root).read_index("org/demo", revision)


def test_a_folder_is_named_by_path_or_file_url(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    for location in (folder, str(folder), folder.as_uri(), f"file://localhost{folder.as_uri()[7:]}"):
        assert connect(location).location == str(folder)


@pytest.mark.parametrize(
    ("location", "error", "words"),
    [
        ("", UsageError, "no registry is named.*KERNELWORKS_REGISTRY"),
        ("ftp://registry.invalid/x", UsageError, "is a URL of a kind that no registry has"),
        ("file://other/x", UsageError, "is not a file URL"),
        ("/nowhere/at/all", TransportError, "`/nowhere/at/all` does not exist; .*KERNELWORKS_REGISTRY"),
        (__file__, TransportError, "is a file, not a folder"),
    ],
)
def test_a_location_that_cannot_be_read_says_why(location: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        connect(location)


def test_versions_come_newest_first_and_numerically(registry: Any, pack: Callable[..., Any]) -> None:
    commits = {version: registry.publish("org/demo", version, pack()).commit for version in (2, 10, 1)}
    refs = registry.root / "org/demo/refs"
    for stray in ("main", "v01", ".v3.new", "v-1"):
        (refs / stray).write_text("not read")
    assert list(connect(registry.root).versions("org/demo").items()) == [
        (10, Ref(commits[10])), (2, Ref(commits[2])), (1, Ref(commits[1]))
    ]  # fmt: skip


def test_a_revision_is_read_by_ref_or_commit(registry: Any, pack: Callable[..., Any]) -> None:
    published = registry.publish("org/demo", 1, pack())
    transport = connect(registry.root)
    for revision in ("v1", published.commit):
        commit, index = read_revision(transport, "org/demo", revision)
        assert (commit, index.variants) == (published.commit, published.variants)
    wheel = published.variants[0].wheel
    with transport.open("org/demo", published.commit, wheel) as stream:
        assert len(stream.read()) == wheel.size


@pytest.mark.parametrize(
    "text", ["", "abc", "0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n\n", "0" * 64 + "\r\n", "../x"]
)
def test_a_ref_that_holds_no_commit_is_refused(registry: Any, pack: Callable[..., Any], text: str) -> None:
    registry.publish("org/demo", 1, pack())
    (registry.root / "org/demo/refs/v1").write_bytes(text.encode())
    with pytest.raises(RepositoryError, match="ref `v1` of `org/demo` does not hold a commit"):
        connect(registry.root).versions("org/demo")


def test_an_index_that_is_not_the_commits_is_refused(registry: Any, pack: Callable[..., Any]) -> None:
    published = registry.publish("org/demo", 1, pack())
    index = published.folder / "kernel.json"
    index.write_bytes(index.read_bytes().replace(b"Apache-2.0", b"Apache-2.1"))
    with pytest.raises(VerifyError, match=r"/kernel\.json` is not what was published: expected sha256") as caught:
        connect(registry.root).read_index("org/demo", "v1")
    assert caught.value.context["expected"] == f"sha256 {published.commit}"


def test_what_is_missing_is_named(registry: Any, pack: Callable[..., Any]) -> None:
    published = registry.publish("org/demo", 1, pack())
    transport = connect(registry.root)
    with pytest.raises(RepositoryError, match=r"has no repository `org/dmo`; did you mean `org/demo`\?"):
        transport.versions("org/dmo")
    with pytest.raises(RepositoryError, match=r"`org/demo` has no version 2 \(there are: 1\)"):
        transport.read_index("org/demo", "v2")
    with pytest.raises(RepositoryError, match=r"`org/demo` has no ref `main` \(its versions are: 1\)"):
        transport.read_index("org/demo", "main")
    with pytest.raises(RepositoryError, match=f"no revision `{'f' * 64}`; version 1 is `{published.commit}`"):
        transport.read_index("org/demo", "f" * 64)
    with pytest.raises(RepositoryError, match=r"lacks the file `wheels/x\.whl`"):
        transport.open("org/demo", published.commit, FileEntry("wheels/x.whl", 0, "0" * 64))
    shutil.rmtree(registry.root / "org/demo/refs")
    with pytest.raises(RepositoryError, match="repository `org/demo` has no version"):
        transport.versions("org/demo")


def test_a_ref_to_a_revision_that_is_gone_is_damage(registry: Any, pack: Callable[..., Any]) -> None:
    published = registry.publish("org/demo", 1, pack())
    shutil.rmtree(published.folder)
    with pytest.raises(
        RepositoryError, match=r"lacks the file `.*/kernel\.json`, which a version points to; .* damaged"
    ):
        connect(registry.root).read_index("org/demo", "v1")


@pytest.mark.parametrize("asked", ["org/nope", "org/demon-slayer", "my-org/demo7"])
def test_what_is_spelled_quite_differently_is_not_offered_but_listed(
    registry: Any, pack: Callable[..., Any], asked: str
) -> None:
    with pytest.raises(RepositoryError, match="it holds none"):
        connect(registry.root).versions(asked)
    for number in range(7):
        registry.publish(f"org/demo{number}", 1, pack())
    with pytest.raises(
        RepositoryError, match=f"no repository `{asked}`; it holds: `org/demo0`, .*`org/demo4` and 2 more$"
    ):
        connect(registry.root).versions(asked)


def test_a_registry_that_cannot_be_read_is_told_from_one_that_lacks_something(
    registry: Any, pack: Callable[..., Any]
) -> None:
    published = registry.publish("org/demo", 1, pack())
    (published.folder / "kernel.json").unlink()
    (published.folder / "kernel.json").mkdir()
    with pytest.raises(TransportError, match="cannot read"):
        connect(registry.root).read_index("org/demo", "v1")
