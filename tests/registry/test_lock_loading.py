"""Loading what a lock file names: these commits, these bytes, these dependencies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks import (
    LockError,
    UsageError,
    VerifyError,
    explain,
    get_kernel,
    get_locked_kernel,
    install_kernel,
    load_kernel,
)
from kernelworks.lockfile import Lock, Pin
from kernelworks.locking.pinning import changes, lock_kernels
from kernelworks.locking.project import Wanted
from kernelworks.model.variant import FrameworkFacts, KernelDependency, Variant

Pack = Callable[..., tuple[Variant, bytes]]
RELU = KernelDependency("org/relu", 1)
OLD, NEW = ({"__init__.py": f"value = {value}\n".encode()} for value in (1, 2))
CUDA = {"name": "torch-stable-abi211-cu130-x86_64-linux", "framework": FrameworkFacts("torch-stable-abi", (2, 99))}


def lock_of(place: Path, *wanted: Wanted, registry: Any) -> Path:
    path = place / "kernelworks.lock"
    path.write_bytes(Lock("", lock_kernels(wanted, (str(registry.root),))).to_bytes())
    return path


def test_a_locked_kernel_stays_what_it_was_when_the_version_moves_on(registry: Any, pack: Pack, tmp_path: Path) -> None:
    registry.publish("org/relu", 1, pack(OLD))
    lockfile = lock_of(tmp_path, Wanted(RELU), registry=registry)
    registry.publish("org/relu", 1, pack(NEW))
    assert get_kernel("org/relu", version=1).value == 2
    assert get_locked_kernel("org/relu", lockfile=lockfile).value == 1
    assert get_locked_kernel("org/relu", lockfile=tmp_path) is load_kernel("org/relu", lockfile=str(lockfile))


def test_a_relative_lock_file_is_that_of_the_folder_which_the_process_is_in(
    registry: Any, pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, sources in (("old", OLD), ("new", NEW)):
        registry.publish("org/relu", 1, pack(sources))
        (tmp_path / name).mkdir()
        lock_of(tmp_path / name, Wanted(RELU), registry=registry)
    values = []
    for name in ("old", "new"):
        monkeypatch.chdir(tmp_path / name)
        values.append(get_locked_kernel("org/relu", lockfile="kernelworks.lock").value)
    assert values == [1, 2]


def test_dependencies_of_every_variant_are_locked_and_loaded_as_locked(
    registry: Any, pack: Pack, tmp_path: Path
) -> None:
    needs_base = {"__init__.py": b"from kernelworks import get_kernel_dep\nvalue = get_kernel_dep('org/base').value\n"}
    base, cuda = KernelDependency("org/base", 1), KernelDependency("org/cuda-only", 3)
    registry.publish("org/base", 1, pack(OLD))
    registry.publish("org/cuda-only", 3, pack(OLD, id="_cuda_only_1"))
    registry.publish(
        "org/relu",
        1,
        pack(needs_base, id="_relu_1", kernel_depends=(base,)),
        pack(needs_base, id="_relu_1", kernel_depends=(cuda,), **CUDA),
    )
    lockfile = lock_of(tmp_path, Wanted(RELU), registry=registry)
    registry.publish("org/base", 1, pack(NEW))
    entries = json.loads(lockfile.read_text())["kernels"]
    assert [(entry["repo-id"], entry["direct"], len(entry["variants"])) for entry in entries] == [
        ("org/base", False, 1),
        ("org/cuda-only", False, 1),
        ("org/relu", True, 2),
    ]
    assert get_locked_kernel("org/relu", lockfile=lockfile).value == 1


def test_what_a_kernel_needs_and_is_not_locked_is_refused(registry: Any, pack: Pack, tmp_path: Path) -> None:
    registry.publish("org/base", 1, pack(OLD))
    commit = registry.publish(
        "org/relu", 1, pack(id="_relu_1", kernel_depends=(KernelDependency("org/base", 1),))
    ).commit
    (tmp_path / "kernels.lock").write_text(json.dumps([{"dependency": RELU.to_json(), "lock": {"commit": commit}}]))
    with pytest.raises(LockError, match=r"`org/relu` needs kernel `org/base`: .* has no `org/base` version 1"):
        get_locked_kernel("org/relu", lockfile=tmp_path)


def test_a_variant_that_is_not_the_locked_one_is_refused_before_anything_is_fetched(
    registry: Any, pack: Pack, tmp_path: Path
) -> None:
    published = registry.publish("org/relu", 1, pack())
    (variant,) = published.variants
    for name, variants in (("a", {variant.name: "f" * 64}), ("b", {"torch-cpu": variant.wheel.sha256})):
        lockfile = tmp_path / name
        lockfile.write_bytes(Lock("", (Pin(RELU, published.commit, None, variants),)).to_bytes())
        with pytest.raises(VerifyError, match="is not the one that was locked") as caught:
            get_locked_kernel("org/relu", lockfile=lockfile)
        assert caught.value.context["got"] == variant.wheel.sha256
        assert not (tmp_path / "cache" / "kernels").exists()


def test_the_lock_that_the_environment_names_decides_every_call_without_a_commit(
    registry: Any, pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = registry.publish("org/relu", 1, pack(OLD))
    lockfile = lock_of(tmp_path, Wanted(RELU), registry=registry)
    second = registry.publish("org/relu", 1, pack(NEW))
    registry.publish("org/relu", 2, pack(NEW))
    assert get_kernel("org/relu").value == 2
    monkeypatch.setenv("KERNELWORKS_LOCK", str(lockfile))
    assert get_kernel("org/relu").value == 1
    assert get_kernel("org/relu", version=1).value == 1
    assert explain("org/relu").commit == first.commit
    assert get_locked_kernel("org/relu").value == 1
    assert get_kernel("org/relu", revision=second.commit).value == 2
    with pytest.raises(LockError, match=r"no `org/relu` version 2 \(it has `org/relu` version 1\)"):
        get_kernel("org/relu", version=2)
    with pytest.raises(LockError, match="has no `org/other`"):
        install_kernel("org/other")
    monkeypatch.setenv("KERNELWORKS_LOCK", str(tmp_path / "nowhere"))
    with pytest.raises(LockError, match="nowhere` is no lock file"):
        get_kernel("org/relu")


def test_an_override_takes_the_place_of_a_lock(
    registry: Any, pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_revision: Any
) -> None:
    registry.publish("org/relu", 1, pack(OLD))
    lockfile = lock_of(tmp_path, Wanted(RELU), registry=registry)
    make_revision(tmp_path / "mine", "relu", 1, [pack(NEW)])
    monkeypatch.setenv("LOCAL_KERNELS", f"org/relu={tmp_path / 'mine'}")
    assert get_locked_kernel("org/relu", lockfile=lockfile).value == 2


def test_arguments_are_checked_first(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a repository id"):
        load_kernel("relu", lockfile=tmp_path)
    with pytest.raises(UsageError, match="trust_remote_code must be True or False"):
        get_locked_kernel("org/relu", lockfile=tmp_path, trust_remote_code="yes")  # type: ignore[arg-type]


def test_code_that_no_distribution_has_brought_is_told_where_to_put_a_lock() -> None:
    with pytest.raises(LockError, match="no lock file is installed with `"):
        get_locked_kernel("org/relu")


# Making locks


def test_a_lock_keeps_its_commits_until_it_is_told_to_upgrade(registry: Any, pack: Pack) -> None:
    places = (str(registry.root),)
    first = registry.publish("org/relu", 1, pack(OLD)).commit
    before = Lock("x", lock_kernels([Wanted(RELU)], places))
    second = registry.publish("org/relu", 1, pack(NEW)).commit
    assert changes(before.pins, lock_kernels([Wanted(RELU)], places, before)) == ()
    (change,) = changes(before.pins, lock_kernels([Wanted(RELU)], places))
    assert (change.before, change.after) == (first, second)
    (gone,) = changes(before.pins, ())
    assert (gone.before, gone.after) == (first, None)


def test_a_kept_commit_whose_variants_have_changed_is_refused(registry: Any, pack: Pack) -> None:
    published = registry.publish("org/relu", 1, pack())
    kept = Lock("x", (Pin(RELU, published.commit, None, {"torch-cpu": "f" * 64}),))
    with pytest.raises(VerifyError, match="its variants have changed"):
        lock_kernels([Wanted(RELU)], (str(registry.root),), kept)


def test_all_that_cannot_be_locked_is_told_at_once(registry: Any, pack: Pack) -> None:
    registry.publish("org/relu", 1, pack())
    wanted = [Wanted(KernelDependency("org/relu", 7)), Wanted(KernelDependency("org/other", 1)), Wanted(RELU)]
    with pytest.raises(Exception, match=r"has no version 7[\s\S]*no repository `org/other`") as caught:
        lock_kernels(wanted, (str(registry.root),))
    assert [error["code"] for error in caught.value.context["errors"]] == ["repository", "repository"]


def test_one_kernel_from_two_registries_is_refused(registry: Any, pack: Pack) -> None:
    base = KernelDependency("org/base", 1)
    registry.publish("org/base", 1, pack(OLD))
    registry.publish("org/relu", 1, pack(id="_relu_1", kernel_depends=(base,)))
    wanted = [Wanted(RELU, str(registry.root)), Wanted(base)]
    with pytest.raises(LockError, match="`org/base` version 1 is needed from any registry and registry `"):
        lock_kernels(wanted, (str(registry.root),))


def test_circles_of_kernels_can_be_locked(registry: Any, pack: Pack) -> None:
    """Whether they can be loaded is said when they are."""
    registry.publish("org/relu", 1, pack(kernel_depends=(KernelDependency("org/base", 1),)))
    registry.publish("org/base", 1, pack(kernel_depends=(RELU,)))
    assert len(lock_kernels([Wanted(RELU)], (str(registry.root),))) == 2
