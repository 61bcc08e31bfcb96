from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks import api, get_kernel, get_loaded_kernels, get_local_kernel, load
from kernelworks.errors import LoadError, ResolveError, VerifyError
from kernelworks.host import HostEnv
from kernelworks.model.variant import KernelDependency, Variant

Pack = Callable[..., tuple[Variant, bytes]]

SOURCES = {
    "__init__.py": b"from . import layers\nfrom .layers import Twice, twice\n",
    "layers.py": b"class Twice:\n    def __init__(self, by):\n        self.by = by\n\n"
    b"def twice(x):\n    return 2 * x\n",
}


PRETEND = "from kernelworks.host import *\nfrom kernelworks.backends.spec import *\nimport kernelworks.host"
"""What a process needs to read the text of a `HostEnv`."""


def forget() -> None:
    """What a fresh process knows of kernels: nothing."""
    api._modules.clear()
    for name in list(load._kernels):
        load._forget(name)


def test_functions_classes_and_modules_come_back_in_a_process_that_has_loaded_nothing(
    registry: Any, pack: Pack
) -> None:
    registry.publish("org/demo", 1, pack(SOURCES))
    kernel = get_kernel("org/demo", version=1)
    data = pickle.dumps([kernel.twice, kernel.Twice(5), kernel, kernel.layers])
    forget()
    shutil.rmtree(registry.root)  # no registry is asked
    twice, made, module, layers = pickle.loads(data)  # noqa: S301  # our own bytes
    assert twice(4) == 8
    assert made.by == 5
    assert module.layers is layers
    assert module is not kernel
    [found] = get_loaded_kernels()
    assert (found.module, found.origin.subject, found.origin.version) == (module, "org/demo", 1)
    assert found.repo_info is not None
    assert found.repo_info.repo_id == "org/demo"


def test_in_the_same_process_they_are_the_same(registry: Any, pack: Pack) -> None:
    registry.publish("org/demo", 1, pack(SOURCES))
    kernel = get_kernel("org/demo", version=1)
    for thing in (kernel.twice, kernel.Twice, kernel, kernel.layers):
        assert pickle.loads(pickle.dumps(thing)) is thing  # noqa: S301  # our own bytes
        assert copy.deepcopy(thing) is thing


def test_a_spawned_process_gets_them(registry: Any, pack: Pack, host: HostEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.publish("org/demo", 1, pack(SOURCES))
    kernel = get_kernel("org/demo", version=1)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", None, raising=False)  # pytest's is not to be run again
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1, exec, (f"{PRETEND}\nkernelworks.host.detect = lambda host={host!r}: host",)) as pool:
        assert pool.map(kernel.twice, [1, 2, 3]) == [2, 4, 6]


def test_a_program_that_knows_nothing_of_kernels_reads_a_pickle(
    registry: Any, pack: Pack, processes: Any, tmp_path: Path
) -> None:
    registry.publish("org/demo", 1, pack(SOURCES))
    (tmp_path / "pickle").write_bytes(pickle.dumps(get_kernel("org/demo", version=1).twice))
    program = f"import pickle\nwith open({str(tmp_path / 'pickle')!r}, 'rb') as file: print(pickle.load(file)(21))"
    assert processes.start(program).communicate() == ("42\n", "")


def test_dependencies_come_back_as_well(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(SOURCES))
    user = {
        "__init__.py": b"from kernelworks import get_kernel_dep\nbase = get_kernel_dep('org/base')\n"
        b"def four(x):\n    return base.twice(base.twice(x))\n"
    }
    facts = {"kernel_depends": (KernelDependency("org/base", 1),), "id": "_user_cpu_1a2b3c4d"}
    registry.publish("org/user", 1, pack(user, **facts))
    data = pickle.dumps(get_kernel("org/user", version=1).four)
    forget()
    shutil.rmtree(registry.root)
    assert pickle.loads(data)(1) == 4  # noqa: S301  # our own bytes


def test_a_local_kernel_comes_back_from_its_folder(registry: Any, pack: Pack) -> None:
    published = registry.publish("org/demo", 1, pack(SOURCES))
    data = pickle.dumps(get_local_kernel(published.folder).twice)
    forget()
    assert pickle.loads(data)(2) == 4  # noqa: S301  # our own bytes
    forget()
    shutil.rmtree(published.folder)
    with pytest.raises(VerifyError, match=r"load it again: `get_local_kernel\(\"/"):
        pickle.loads(data)  # noqa: S301  # our own bytes


def test_equal_kernels_from_a_registry_and_from_a_folder_are_one(registry: Any, pack: Pack) -> None:
    published = registry.publish("org/demo", 1, pack(SOURCES))
    assert get_local_kernel(published.folder) is get_kernel("org/demo", version=1)


def test_a_tampered_kernel_does_not_come_back(registry: Any, pack: Pack) -> None:
    published = registry.publish("org/demo", 1, pack(SOURCES))
    kernel = get_kernel("org/demo", version=1)
    data = pickle.dumps(kernel.twice)
    (get_loaded_kernels()[0].folder / "layers.py").write_bytes(b"evil")
    forget()
    with pytest.raises(VerifyError) as caught:
        pickle.loads(data)  # noqa: S301  # our own bytes
    assert caught.value.context["file"] == "layers.py"
    assert caught.value.hint is not None
    assert f'`get_kernel("org/demo", revision="{published.commit}", registry="{registry.root}")`' in caught.value.hint


def record_of(registry: Any, pack: Pack) -> tuple[Path, bytes]:
    """(record, pickle) of a kernel that is forgotten."""
    registry.publish("org/demo", 1, pack(SOURCES))
    data = pickle.dumps(get_kernel("org/demo", version=1).twice)
    forget()
    [record] = (Path(os.environ["KERNELWORKS_CACHE"]) / "loaded").iterdir()
    return record, data


def delete(record: Path) -> None:
    record.unlink()


def damage(record: Path) -> None:
    record.write_bytes(b"{")


def open_to_others(record: Path) -> None:
    record.chmod(0o666)


def swap_files(record: Path) -> None:
    document = json.loads(record.read_bytes())
    document["variant"]["files"][0]["sha256"] = "0" * 64
    record.write_text(json.dumps(document))


@pytest.mark.parametrize("spoil", [delete, damage, open_to_others, swap_files])
def test_without_a_record_to_believe_it_says_what_to_do(
    registry: Any, pack: Pack, spoil: Callable[[Path], None]
) -> None:
    record, data = record_of(registry, pack)
    spoil(record)
    with pytest.raises(LoadError, match="was never loaded with the cache") as caught:
        pickle.loads(data)  # noqa: S301  # our own bytes
    assert "load it here once, by the `get_kernel` call" in str(caught.value)


def test_a_kernel_that_does_not_fit_this_process_does_not_come_back(
    registry: Any, pack: Pack, this_process: Callable[..., Any]
) -> None:
    _, data = record_of(registry, pack)
    this_process(torch="2.9.0")
    with pytest.raises(ResolveError, match=r"needs torch 2\.11 or newer"):
        pickle.loads(data)  # noqa: S301  # our own bytes


def test_a_record_of_a_lower_layer_is_found(registry: Any, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    _, data = record_of(registry, pack)
    with tempfile.TemporaryDirectory() as own:
        monkeypatch.setenv("KERNELWORKS_CACHE", os.pathsep.join([own, os.environ["KERNELWORKS_CACHE"]]))
        assert pickle.loads(data)(1) == 2  # noqa: S301  # our own bytes


def test_a_cache_that_has_moved_gives_its_copy(registry: Any, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    _, data = record_of(registry, pack)
    cache = Path(os.environ["KERNELWORKS_CACHE"])
    monkeypatch.setenv("KERNELWORKS_CACHE", str(cache.rename(cache.with_name("moved"))))
    assert pickle.loads(data)(1) == 2  # noqa: S301  # our own bytes
    assert "moved" in str(get_loaded_kernels()[0].folder)
