"""Publishing into a folder registry: whole or not at all."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelworks.errors import UsageError
from kernelworks.model.digest import hash_file
from kernelworks.model.index import Index
from kernelworks.transport import connect
from kernelworks.transport.revision import Ref
from kernelworks_build.errors import PublishError
from kernelworks_build.publish import publish
from kernelworks_build.revision import check_revision, read_revision

MakeDist = Callable[..., Path]
REPO = "demo/toy"


def check_registry(registry: Path) -> None:
    """Whatever a ref points to is there, whole."""
    for ref in registry.glob("*/*/refs/*"):
        if ref.name.startswith("."):
            continue
        revision = ref.parents[1] / "revisions" / ref.read_text().strip()
        index = read_revision(revision)
        assert index is not None
        check_revision(revision, index, hint="")


def test_a_published_revision_is_read_back_by_version_and_by_commit(make_dist: MakeDist, tmp_path: Path) -> None:
    done = publish(make_dist(tmp_path / "dist", "cpu"), tmp_path / "registry", REPO)
    transport = connect(tmp_path / "registry")
    assert transport.versions(REPO) == {1: Ref(done.commit)}
    for revision in ("v1", done.commit):
        said = transport.read_index(REPO, revision)
        assert said.commit == done.commit
        assert [variant.name for variant in Index.from_bytes(said.index or b"", "x").variants] == list(done.variants)
    check_registry(tmp_path / "registry")


def test_publishing_the_same_again_changes_nothing(make_dist: MakeDist, tmp_path: Path) -> None:
    dist = make_dist(tmp_path / "dist", "cpu")
    first = publish(dist, tmp_path / "registry", REPO)
    second = publish(dist, tmp_path / "registry", REPO)
    assert (first.commit, first.changed, second.changed) == (second.commit, True, False)


def test_variants_of_the_same_sources_join_and_the_older_revision_stays(make_dist: MakeDist, tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    first = publish(make_dist(tmp_path / "one", "cpu"), registry, REPO)
    second = publish(make_dist(tmp_path / "two", "metal"), registry, REPO)
    assert [name.split("-")[3] for name in second.variants] == ["cpu", "metal"]
    assert connect(registry).read_index(REPO, first.commit).commit == first.commit
    check_registry(registry)


def test_variants_of_other_sources_are_left_behind_and_named(make_dist: MakeDist, tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    publish(make_dist(tmp_path / "one", "cpu"), registry, REPO)
    done = publish(make_dist(tmp_path / "two", "metal", digest="1" * 64), registry, REPO)
    assert done.left_behind == ("torch-stable-abi211-cpu-x86_64-linux",)
    assert done.variants == ("torch-stable-abi211-metal-x86_64-linux",)


@pytest.mark.parametrize("victim", ["wheels/toy-1+cpu.whl", "build/torch-stable-abi211-cpu-x86_64-linux/__init__.py"])
def test_a_flipped_byte_is_refused_and_nothing_is_written(make_dist: MakeDist, tmp_path: Path, victim: str) -> None:
    dist = make_dist(tmp_path / "dist", "cpu")
    data = bytearray((dist / victim).read_bytes())
    data[50] ^= 1
    (dist / victim).write_bytes(data)
    with pytest.raises(PublishError) as caught:
        publish(dist, tmp_path / "registry", REPO)
    (fault,) = caught.value.context["faults"]
    assert fault["file"] == victim
    assert fault["got"] == f"sha256 {hash_file(dist / victim)[1]}"
    assert fault["expected"] != fault["got"]
    assert not (tmp_path / "registry").exists()


def test_a_missing_file_nothing_built_and_a_bad_name_are_said(make_dist: MakeDist, tmp_path: Path) -> None:
    dist = make_dist(tmp_path / "dist", "cpu")
    (dist / "wheels" / "toy-1+cpu.whl").unlink()
    with pytest.raises(PublishError, match="No such file"):
        publish(dist, tmp_path / "registry", REPO)
    with pytest.raises(PublishError, match="holds nothing that was built"):
        publish(tmp_path / "empty", tmp_path / "registry", REPO)
    with pytest.raises(UsageError, match="not a repository id"):
        publish(make_dist(tmp_path / "ok", "cpu"), tmp_path / "registry", "../../etc")


def test_dirty_sources_are_published_only_when_told(make_dist: MakeDist, tmp_path: Path) -> None:
    dist = make_dist(tmp_path / "dist", "cpu", dirty=True)
    with pytest.raises(PublishError, match="sources differ from commit"):
        publish(dist, tmp_path / "registry", REPO)
    assert publish(dist, tmp_path / "registry", REPO, allow_dirty=True).changed


@pytest.mark.parametrize("victim", ["wheels/toy-1+cpu.whl", "README.md", "build"])
def test_publishing_again_repairs_a_damaged_revision(make_dist: MakeDist, tmp_path: Path, victim: str) -> None:
    registry = tmp_path / "registry"
    dist = make_dist(tmp_path / "dist", "cpu")
    first = publish(dist, registry, REPO)
    damaged = registry / REPO / "revisions" / first.commit / victim
    if damaged.is_dir():
        shutil.rmtree(damaged)
    else:
        damaged.write_bytes(b"rot")
    again = publish(dist, registry, REPO)
    check_registry(registry)
    assert (again.commit, again.changed) == (first.commit, victim != "README.md")


def test_rot_in_the_revision_before_is_not_carried_on(make_dist: MakeDist, tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    first = publish(make_dist(tmp_path / "one", "cpu"), registry, REPO)
    (registry / REPO / "revisions" / first.commit / "wheels" / "toy-1+cpu.whl").write_bytes(b"rot")
    with pytest.raises(PublishError, match=r"toy-1\+cpu\.whl"):
        publish(make_dist(tmp_path / "two", "metal"), registry, REPO)
    assert connect(registry).versions(REPO) == {1: Ref(first.commit)}


def test_an_interrupted_publication_leaves_the_revision_before_and_can_be_repeated(
    make_dist: MakeDist, tmp_path: Path
) -> None:
    registry = tmp_path / "registry"
    before = publish(make_dist(tmp_path / "one", "cpu"), registry, REPO)
    code = (
        "import sys; from pathlib import Path; from kernelworks_build.publish import publish;"
        f" publish(Path(sys.argv[1]), {str(registry)!r}, {REPO!r})"
    )
    source = random.Random(7)
    caught = 0
    for attempt in range(40):
        dist = make_dist(tmp_path / f"dist{attempt}", "cpu", digest=f"{attempt:064}", size=3_000_000)
        with subprocess.Popen([sys.executable, "-c", code, str(dist)]) as process:
            while not list(registry.glob("demo/toy/.incoming*")) and process.poll() is None:
                time.sleep(0.0005)
            time.sleep(source.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
        check_registry(registry)
        assert connect(registry).read_index(REPO, before.commit).commit == before.commit
        caught += bool(list(registry.glob("demo/toy/.incoming*")))
        done = publish(dist, registry, REPO)
        assert connect(registry).versions(REPO) == {1: Ref(done.commit)}
        assert not list(registry.glob("demo/toy/.incoming*"))
        if caught == 5:
            break
    assert caught, "no kill fell into a copy"


def test_eight_publishers_at_once_end_with_every_variant(make_dist: MakeDist, tmp_path: Path) -> None:
    backends = ["cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu"]
    code = (
        "import sys; from pathlib import Path; from kernelworks_build.publish import publish;"
        f" publish(Path(sys.argv[1]), Path({str(tmp_path / 'registry')!r}), {REPO!r})"
    )
    dists = [make_dist(tmp_path / backend, backend) for backend in backends]
    running = [subprocess.Popen([sys.executable, "-c", code, str(dist)]) for dist in dists]
    assert [process.wait() for process in running] == [0] * 8
    commit = connect(tmp_path / "registry").versions(REPO)[1].commit
    index = read_revision(tmp_path / "registry" / REPO / "revisions" / commit)
    assert index is not None
    assert [variant.backend.kind for variant in index.variants] == backends
    check_registry(tmp_path / "registry")
