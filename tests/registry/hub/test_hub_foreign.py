"""Kernels of other builders: no index, `build/<variant>/` with `metadata.json`, as the public Hub has them."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks import (
    LoadError,
    RepositoryError,
    ResolveError,
    TransportError,
    TrustError,
    VerifyError,
    api,
    explain,
    get_kernel,
    get_loaded_kernels,
)
from kernelworks.model.digest import list_tree

if TYPE_CHECKING:
    from conftest import Handler, Hub

REPO = "org/demo"
CPU = "torch213-cxx11-cpu-x86_64-linux"
OLD = "torch29-cxx11-cpu-x86_64-linux"


def load(**arguments: Any) -> Any:
    """What a new process would get."""
    api._modules.clear()
    return get_kernel(REPO, trust_remote_code=True, **arguments)


def digests(algorithm: str, sources: dict[str, bytes]) -> dict[str, Any]:
    """What `metadata.json` says of files."""
    files = {path: base64.b64encode(hashlib.new(algorithm, data).digest()).decode() for path, data in sources.items()}
    return {"algorithm": algorithm, "files": files}


@pytest.fixture
def large(sources: dict[str, bytes]) -> dict[str, bytes]:
    """The files of a kernel, one of them large."""
    return {**sources, "data/large.bin": b"0123456789" * 1000}


@pytest.mark.parametrize("algorithm", ["sha256", "sha512", None])
def test_a_variant_is_found_verified_and_loaded(hub: Hub, large: dict[str, bytes], algorithm: str | None) -> None:
    digest = digests(algorithm, large) if algorithm else None
    commit = hub.publish_foreign(1, {CPU: large, OLD: large}, digest=digest)
    assert load(version=1).twice(4) == 8
    kernel = get_loaded_kernels()[-1]
    assert (kernel.origin.version, kernel.origin.commit, kernel.variant.name) == (1, commit, CPU)
    assert {entry.path for entry in list_tree(kernel.folder)} == large.keys()


def test_a_cold_load_is_the_missing_index_one_list_and_one_request_per_file(hub: Hub, large: dict[str, bytes]) -> None:
    commit = hub.publish_foreign(1, {CPU: large, OLD: large})
    load(version=1)
    resolve = f"/kernels/{REPO}/resolve/{commit}/build/{CPU}"
    assert hub.requests[:3] == [
        f"/kernels/{REPO}/resolve/v1/kernel.json",
        f"/api/kernels/{REPO}/tree/{commit}/build?recursive=true",
        f"{resolve}/metadata.json",
    ]
    assert sorted(hub.requests[3:]) == sorted(f"{resolve}/{path}" for path in large)


@pytest.mark.parametrize("algorithm", ["sha256", None])
def test_a_commit_that_was_loaded_before_needs_no_request(
    hub: Hub, large: dict[str, bytes], processes: Any, algorithm: str | None
) -> None:
    commit = hub.publish_foreign(1, {CPU: large}, digest=digests(algorithm, large) if algorithm else None)
    load(version=1)
    hub.stop()
    call = f"kernelworks.get_kernel({REPO!r}, revision={commit!r}, trust_remote_code=True)"
    program = f"import sys, kernelworks; print({call}.twice(4), 'http.client' in sys.modules)"
    assert processes.start(program).communicate() == ("8 False\n", "")


def test_a_list_comes_in_pages(hub: Hub, large: dict[str, bytes]) -> None:
    hub.publish_foreign(1, {CPU: large, OLD: large})
    hub.page = 3
    assert load(version=1).twice(4) == 8
    assert sum("/tree/" in path for path in hub.requests) == 5


def test_pages_of_another_server_are_not_read(hub: Hub, large: dict[str, bytes]) -> None:
    hub.publish_foreign(1, {CPU: large})
    elsewhere = {"Link": '<http://127.0.0.1:1/api?cursor=1>; rel="next"'}
    hub.misbehave("recursive=true", lambda handler: handler.send(b"[]", **elsewhere))
    with pytest.raises(TransportError, match="which is not its own"):
        load(version=1)


def test_pages_end(hub: Hub, large: dict[str, bytes]) -> None:
    hub.publish_foreign(1, {CPU: large})
    hub.page = 0
    with pytest.raises(TransportError, match="is the last of 100 pages"):
        load(version=1)


def test_facts_that_only_the_description_has_send_to_the_next_best_variant(hub: Hub, sources: dict[str, bytes]) -> None:
    hub.publish_foreign(1, {CPU: sources, "torch-cpu": sources})
    described = hub.revisions[REPO, hub.repos[REPO]["v1"]] / "build" / CPU / "metadata.json"
    document = json.loads(described.read_text())
    described.write_text(json.dumps({**document, "python-depends": ["einops"], "id": "_demo_cpu_other"}))
    found = explain(REPO, version=1)
    assert found.chosen == "torch-cpu"
    assert "einops" in json.dumps(found.to_json())
    assert load(version=1).twice(1) == 2
    assert get_loaded_kernels()[-1].variant.name == "torch-cpu"


def test_nothing_fits_is_told_with_every_reason(hub: Hub, sources: dict[str, bytes]) -> None:
    hub.publish_foreign(1, {OLD: sources, "torch213-cxx98-cpu-x86_64-linux": sources})
    with pytest.raises(ResolveError, match=r"needs exactly torch 2\.9.*") as caught:
        load(version=1)
    assert len(caught.value.context["rejections"]) == 2
    assert hub.asked("metadata.json") == 0


def test_without_consent_no_code_is_fetched(hub: Hub, large: dict[str, bytes]) -> None:
    hub.publish_foreign(1, {CPU: large})
    with pytest.raises(TrustError):
        get_kernel(REPO, version=1)
    assert hub.asked(".py") == 0


def test_a_repository_without_kernels_says_what_it_lacks(hub: Hub, pack: Callable[..., Any]) -> None:
    commit = hub.publish(1, pack())
    (hub.revisions[REPO, commit] / "kernel.json").unlink()
    with pytest.raises(RepositoryError, match=r"holds neither `kernel\.json` nor `build/<variant>/metadata\.json`"):
        load(version=1)


def test_of_many_variants_one_with_an_unknown_version_is_skipped_and_said(
    hub: Hub, sources: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    hub.publish_foreign(1, {CPU: sources, "torch999-cpu-x86_64-linux": sources})
    with caplog.at_level(logging.WARNING):
        assert load(version=1).twice(1) == 2
    assert "`999` in `torch999-cpu-x86_64-linux` is not a known torch version" in caplog.text


def test_a_large_file_that_contradicts_its_description_is_refused(hub: Hub, large: dict[str, bytes]) -> None:
    for algorithm in ("sha256", "sha512"):
        hub.publish_foreign(1, {CPU: large}, digest=digests(algorithm, {**large, "data/large.bin": b"other"}))
        with pytest.raises(VerifyError, match=rf"large\.bin` is not what was published: expected {algorithm} .*, got"):
            load(version=1)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"id": "json"}, RepositoryError, "`id` .* does not match"),
        ({"id": "../x"}, RepositoryError, "`id` .* does not match"),
        ({"id": None}, RepositoryError, "lacks the key `id`"),
        ({"backend": {"type": "cuda"}}, RepositoryError, "is `cuda`, and the folder is for `cpu`"),
        ({"digest": {"algorithm": "md5", "files": {}}}, RepositoryError, "not one of sha256, sha512"),
        ({"digest": {"algorithm": "sha256", "files": []}}, RepositoryError, "must be an object"),
        ({"digest": {"algorithm": "sha256", "files": {"../x": "AA=="}}}, RepositoryError, "not a relative path"),
        ({"digest": {"algorithm": "sha256", "files": {"x": "!"}}}, RepositoryError, "is not base64"),
        ({"digest": {"algorithm": "sha512", "files": {"x": "AA=="}}}, RepositoryError, "is not a sha512"),
        ({"digest": {"algorithm": "sha256", "files": {}}}, VerifyError, "a file that is not listed"),
        ({"python-depends": "x"}, RepositoryError, "must be an array"),
        ({"kernel-depends": [{"repo-id": "a/b"}]}, RepositoryError, "exactly one of `version` and `revision`"),
    ],
)
def test_a_bad_description_is_refused(
    hub: Hub, sources: dict[str, bytes], change: dict[str, Any], error: type[Exception], words: str
) -> None:
    hub.publish_foreign(1, {CPU: sources}, **change)
    with pytest.raises(error, match=words):
        load(version=1)
    assert get_loaded_kernels() == ()


@pytest.mark.parametrize("digest", ["sha256", None])
@pytest.mark.parametrize("ending", ["__init__.py", "large.bin", "metadata.json"])
def test_bytes_that_are_not_those_that_were_listed_are_refused(
    hub: Hub, large: dict[str, bytes], tmp_path: Path, ending: str, digest: str | None
) -> None:
    hub.publish_foreign(1, {CPU: large}, digest=digests(digest, large) if digest else None)
    hub.misbehave(ending, lambda handler: handler.send(bytes(len(file_of(hub, handler)))))
    with pytest.raises(VerifyError, match=f"{ending}`.* expected (sha256|git object)"):
        load(version=1)
    assert not list((tmp_path / "cache").glob("kernels/*"))
    hub.faults.clear()
    assert load(version=1).twice(1) == 2


def file_of(hub: Hub, handler: Handler) -> bytes:
    """What the handler was asked for."""
    folder = hub.revisions[REPO, hub.repos[REPO]["v1"]]
    return (folder / "build" / handler.path.partition("/build/")[2]).read_bytes()


@pytest.mark.parametrize(
    "tree",
    [
        b"{}",
        b'[{"type": "file"}]',
        b'[{"type": "file", "path": "../x", "size": 1, "oid": "%s"}]' % (b"0" * 40),
        b'[{"type": "file", "path": "build/x/y", "size": -1, "oid": "%s"}]' % (b"0" * 40),
        b'[{"type": "file", "path": "build/x/y", "size": 1, "oid": "main"}]',
        b"[" * 100_000,
    ],
)
def test_a_malformed_list_is_refused(hub: Hub, sources: dict[str, bytes], tree: bytes) -> None:
    hub.publish_foreign(1, {CPU: sources})
    hub.misbehave("recursive=true", lambda handler: handler.send(tree))
    with pytest.raises(RepositoryError, match="/tree/"):
        load(version=1)


def test_bytecode_is_not_fetched(hub: Hub, sources: dict[str, bytes]) -> None:
    cached = {"__pycache__/layers.cpython-311.pyc": b"evil"}
    hub.publish_foreign(1, {CPU: {**sources, **cached}}, digest=digests("sha256", sources))
    assert load(version=1).twice(1) == 2
    assert hub.asked(".pyc") == 0


def test_a_damaged_copy_is_fetched_again(hub: Hub, sources: dict[str, bytes], processes: Any, tmp_path: Path) -> None:
    commit = hub.publish_foreign(1, {CPU: sources})
    call = f"kernelworks.get_kernel({REPO!r}, revision={commit!r}, trust_remote_code=True)"
    program = f"import kernelworks; print({call}.twice(4))"
    assert processes.start(program).communicate() == ("8\n", "")
    (damaged,) = (tmp_path / "cache" / "kernels").glob("*/layers.py")
    damaged.chmod(0o644)
    damaged.write_text("def twice(x): return 'evil'")
    out, err = processes.start(program).communicate()
    assert out == "8\n"
    assert "layers.py" in err


def test_what_is_no_shared_object_is_refused_before_it_is_opened(hub: Hub, sources: dict[str, bytes]) -> None:
    extension = {**sources, "__init__.py": b"from . import _ops\n", "_ops.abi3.so": b"\x7fELF" + bytes(2000)}
    hub.publish_foreign(1, {CPU: extension})
    with pytest.raises((VerifyError, LoadError), match="_ops"):
        load(version=1)
