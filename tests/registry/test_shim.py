"""Libraries that are written for the `kernels` package, on this loader."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks import shim
from kernelworks.errors import ResolveError, UsageError
from kernelworks.model.variant import FrameworkFacts, Variant

Pack = Callable[..., tuple[Variant, bytes]]

LIBRARY = """
import importlib.metadata
import importlib.util

available = importlib.util.find_spec("kernels") is not None
version = importlib.metadata.version("kernels")
if available and tuple(map(int, version.split(".")[:2])) >= (0, 10):
    from kernels import Device, LayerRepository, Mode, get_kernel, kernelize, register_kernel_mapping
    from kernels.layer import use_kernel_forward_from_hub


def lazily_load(name):
    try:
        return get_kernel(name, version=1, user_agent={"framework": "library"}, trust_remote_code=["org/relu"])
    except FileNotFoundError:
        return None
"""
"""As the big model libraries do it: a gate by version, names from two modules, and one error that is swallowed."""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "library.py").write_text(LIBRARY)
    return tmp_path / "library.py"


def test_a_library_runs_unchanged(registry: Any, pack: Pack, library: Path, processes: Any) -> None:
    registry.publish("org/relu", 1, pack({"__init__.py": b"value = 1\n"}))
    newer = FrameworkFacts("torch-stable-abi", (2, 99))
    registry.publish("org/new", 1, pack(framework=newer, name="torch-stable-abi214-cpu-x86_64-linux"))
    program = (
        "import kernelworks.shim, sys\n"
        "kernelworks.shim.install()\n"
        f"sys.path.insert(0, {str(library.parent)!r})\n"
        "import library, kernels\n"
        "print(library.version, kernels.__version__, library.lazily_load('org/relu').value)\n"
        "print(library.lazily_load('org/new'), kernels.has_kernel('org/new', version=1, check_arch=False))\n"
        "from kernelworks import LayerRepository, Mode\n"
        "print(library.LayerRepository is LayerRepository, library.Mode is Mode)\n"
    )
    assert processes.start(program).communicate() == ("0.17.2 0.17.2 1\nNone False\nTrue True\n", "")


def test_a_program_is_run_with_the_shim_and_its_arguments(tmp_path: Path, processes: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, kernels\nprint(__name__, kernels.__spec__.loader.__module__, sys.argv[1:])\n")
    program = (
        f"import runpy, sys; sys.argv = ['shim', {str(script)!r}, '-x']\nrunpy._run_module_as_main('kernelworks.shim')"
    )
    assert processes.start(program).communicate() == ("__main__ kernelworks.shim ['-x']\n", "")


def test_every_name_of_the_kernels_package_that_can_be_had_is_there() -> None:
    kernels = pytest.importorskip("kernels", reason="the stock package says which names there are")
    names = set(kernels.__all__) - {"__version__", "Benchmark", "Metadata"}
    assert names == {*shim._MODULES["kernels"], *shim._CLASSES}


def test_what_is_loaded_is_told_by_the_names_of_the_kernels_package(registry: Any, pack: Any, processes: Any) -> None:
    registry.publish("org/relu", 3, pack(id="_relu_cpu_1", package="fast_relu", python_depends=("packaging",)))
    program = (
        "import kernelworks.shim; kernelworks.shim.install()\n"
        "from kernels import get_kernel, get_loaded_kernels\n"
        "module = get_kernel('org/relu', version=3)\n"
        "(loaded,) = get_loaded_kernels()\n"
        "told = loaded.metadata\n"
        "print(loaded.module is module, loaded.repo_info.repo_id)\n"
        "print(told.id, told.name, told.version, told.backend.type, *told.backend.archs, *told.python_depends)\n"
    )
    assert processes.start(program).communicate() == ("True org/relu\n_relu_cpu_1 fast-relu 3 cpu packaging\n", "")


def test_it_is_not_put_over_a_package_that_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kernels", pytest)
    with pytest.raises(UsageError, match="`kernels` is imported already"):
        shim.install()


def test_it_can_be_taken_back(processes: Any) -> None:
    program = (
        "import sys, importlib.util\n"
        "before = importlib.util.find_spec('kernels')\n"
        "from kernelworks import shim\n"
        "shim.install(); shim.install()\n"
        "import kernels.layer\n"
        "shim.uninstall(); shim.uninstall()\n"
        "after = importlib.util.find_spec('kernels')\n"
        "print(after is None if before is None else after.origin == before.origin, 'kernels.layer' in sys.modules)\n"
    )
    assert processes.start(program).communicate() == ("True False\n", "")


def test_what_it_lacks_is_said(processes: Any) -> None:
    program = "from kernelworks import shim; shim.install()\nfrom kernels import Benchmark"
    out, err = processes.start(program).communicate()
    assert out == ""
    assert "ImportError: cannot import name 'Benchmark' from 'kernels'" in err


def test_its_errors_are_of_both_families_and_can_be_pickled() -> None:
    error = shim._spoken(ResolveError("nothing fits", hint="wait", subject="org/relu"))
    assert isinstance(error, FileNotFoundError)
    assert isinstance(error, ResolveError)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    assert (type(copy), str(copy), copy.context) == (type(error), "nothing fits; wait", {"subject": "org/relu"})
