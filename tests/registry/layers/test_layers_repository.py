"""Repositories as values, and what they load from a real registry."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernelworks import (
    FuncRepository,
    LayerRepository,
    LocalFuncRepository,
    LocalLayerRepository,
    LockedFuncRepository,
    LockedLayerRepository,
    RepositoryError,
    ResolveError,
    UsageError,
    get_local_kernel,
)
from kernelworks.backends.spec import HostBackend
from kernelworks.cli import main
from kernelworks.layers.kernel import load_layer


def test_a_repository_is_a_value() -> None:
    one, same = (LayerRepository("org/toys", layer_name="Double", version=1) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert one != LayerRepository("org/toys", layer_name="Double", version=2)
    assert one != FuncRepository("org/toys", func_name="Double", version=1)
    assert LocalLayerRepository("a", layer_name="Double") != LocalLayerRepository("b", layer_name="Double")


def test_a_repository_is_named_as_people_write_it() -> None:
    assert str(LayerRepository("org/toys", layer_name="Double", version=1)) == "layer `Double` of `org/toys` version 1"
    assert str(FuncRepository("org/toys", func_name="f", revision="v1")) == "function `f` of `org/toys` revision `v1`"
    assert str(LocalFuncRepository("toys", func_name="f")) == "function `f` of `toys`"
    assert str(LockedLayerRepository("org/toys", layer_name="Double")) == "layer `Double` of `org/toys` as locked"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"repo_id": "../etc", "version": 1}, "is not a repository id"),
        ({"repo_id": "org/toys", "version": 1, "revision": "v1"}, "both given"),
        ({"repo_id": "org/toys", "version": True}, "version must be an integer"),
        ({"repo_id": "org/toys", "trust_remote_code": "yes"}, "trust_remote_code must be True or False"),
    ],
)
def test_a_repository_that_cannot_be_right_is_refused_where_it_is_written(arguments: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LayerRepository(layer_name="Double", **arguments)


def test_a_list_of_repositories_consents_to_those_in_it() -> None:
    yes = LayerRepository("org/toys", layer_name="Double", trust_remote_code=["org/toys"])
    no = LayerRepository("org/toys", layer_name="Double", trust_remote_code=["org/other"])
    assert (yes.trust_remote_code, no.trust_remote_code) == (True, False)


SOURCES = {
    "__init__.py": b"from . import layers\nfrom .layers import double\n",
    "layers.py": b"class Double: pass\ndef double(x): return 2 * x\n",
}


def test_a_layer_comes_from_the_registry_at_the_version_that_is_asked_for(registry: Any, pack: Any) -> None:
    registry.publish("org/toys", 1, pack(SOURCES))
    registry.publish("org/toys", 2, pack({**SOURCES, "layers.py": b"class Double: newer = True\ndouble = None\n"}))
    layer = LayerRepository("org/toys", layer_name="Double", version=1).load()
    assert not hasattr(layer, "newer")
    assert hasattr(LayerRepository("org/toys", layer_name="Double", version=2).load(), "newer")


def test_a_kernel_that_is_loaded_for_a_model_is_pinned_to_its_commit(registry: Any, pack: Any) -> None:
    published = registry.publish("org/toys", 1, pack(SOURCES))
    mapped = LayerRepository("org/toys", layer_name="Double", version=1, trust_remote_code=True)
    kernel = load_layer(mapped, "cpu")
    assert kernel.loaded is not None
    assert kernel.to_json()["commit"] == published.commit
    assert isinstance(kernel.source, LayerRepository)
    pinned = (kernel.source.revision, kernel.source.version, kernel.source.trust_remote_code)
    assert pinned == (published.commit, None, False)


def test_the_variant_is_that_of_the_device(registry: Any, pack: Any, this_process: Any) -> None:
    this_process(backends=(HostBackend("cuda", (13, 0), ("9.0",)), HostBackend("cpu")))
    registry.publish("org/toys", 1, pack(SOURCES))
    mapped = LayerRepository("org/toys", layer_name="Double", version=1)
    assert load_layer(mapped, "cpu").layer.__name__ == "Double"
    with pytest.raises(ResolveError):
        load_layer(mapped, "cuda")


def test_what_a_kernel_lacks_is_told_with_the_nearest(registry: Any, pack: Any) -> None:
    registry.publish("org/toys", 1, pack(SOURCES))
    registry.publish("org/bare", 1, pack({"__init__.py": b""}))
    with pytest.raises(RepositoryError, match=r"layer `Dubble` .* does not exist .*; did you mean `Double`\?"):
        LayerRepository("org/toys", layer_name="Dubble", version=1).load()
    with pytest.raises(RepositoryError, match="the kernel has no attribute `layers`"):
        LayerRepository("org/bare", layer_name="Double", version=1).load()


@pytest.fixture
def locked(toys: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The calls that the loader of locked kernels gets; it answers with the toys."""
    calls: list[dict[str, Any]] = []

    def get_locked_kernel(repo_id: str, **arguments: Any) -> ModuleType:
        calls.append({"repo_id": repo_id, **arguments})
        return get_local_kernel(toys, backend="cpu")

    monkeypatch.setitem(sys.modules, "kernelworks.locking.locked", SimpleNamespace(get_locked_kernel=get_locked_kernel))  # type: ignore[arg-type]
    return calls


def test_a_locked_layer_comes_from_the_lock_file(locked: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="layers are modules of torch")
    lockfile = tmp_path / "kernels.lock"
    kernel = load_layer(LockedLayerRepository("org/toys", lockfile=lockfile, layer_name="Double"), "cpu")
    assert kernel.layer.__name__ == "Double"
    assert kernel.source == LayerRepository("org/toys", layer_name="Double")
    load_layer(LockedFuncRepository("org/toys", lockfile=lockfile, func_name="double"), "cpu")
    assert (
        locked[0]
        == locked[1]
        == {
            "repo_id": "org/toys",
            "lockfile": lockfile,
            "backend": "cpu",
            "trust_remote_code": False,
        }
    )


def test_a_locked_layer_stays_what_was_locked(
    registry: Any, pack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="layers are modules of torch")
    registry.publish("org/toys", 1, pack(SOURCES))
    (tmp_path / "pyproject.toml").write_text('[tool.kernelworks.dependencies]\n"org/toys" = 1\n')
    monkeypatch.chdir(tmp_path)
    assert main(["lock"]) == 0
    registry.publish("org/toys", 1, pack({"__init__.py": b""}))
    mapped = LockedLayerRepository("org/toys", lockfile=tmp_path / "kernelworks.lock", layer_name="Double")
    assert load_layer(mapped, "cpu").layer.__name__ == "Double"
