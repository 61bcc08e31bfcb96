from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import pickle
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kernelworks.loaded
from kernelworks.errors import LoadError
from kernelworks.load import Origin, get_loaded_kernels, load_variant
from kernelworks.model.digest import FileEntry, hash_bytes, list_tree
from kernelworks.model.variant import Variant

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, variant: Variant) -> Load:
    def load(files: Mapping[str, bytes], **facts: Any) -> ModuleType:
        """Load a kernel of these files; a kernel of equal files in the same test is the same kernel."""
        digest = hash_bytes(repr((str(tmp_path), sorted(files.items()))).encode())
        folder = tmp_path / digest
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        this = dataclasses.replace(variant, wheel=FileEntry("w", 0, digest), **facts)
        return load_variant(this, Origin("org/demo", 1, None), lambda: folder)

    return load


def kernel_modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("kernelworks.loaded.")}


def test_a_kernel_is_a_package_below_our_own_namespace(load: Load, sources: dict[str, bytes]) -> None:
    module = load(sources)
    assert module.twice(21) == 42
    assert module.__name__.startswith("kernelworks.loaded._demo_cpu_1a2b3c4d_")
    assert module.layers.__name__ == f"{module.__name__}.layers"
    assert getattr(kernelworks.loaded, module.__name__.rpartition(".")[2]) is module
    assert get_loaded_kernels()[-1].module is module


def test_two_versions_live_side_by_side(load: Load) -> None:
    one, two = (load({"__init__.py": b"from . import part\n", "part.py": b"x = %d" % number}) for number in (1, 2))
    assert (one.part.x, two.part.x) == (1, 2)


def test_no_bytecode_is_written_and_none_is_read(load: Load) -> None:
    module = load({"__init__.py": b"from . import part\n", "part.py": b"x = 1", "ghost.pyc": b"evil"})
    assert module.part.x == 1
    assert [entry.path for entry in list_tree(Path(module.__file__ or "").parent)] == [
        "__init__.py",
        "ghost.pyc",
        "part.py",
    ]
    with pytest.raises(ModuleNotFoundError, match="ghost"):
        __import__(f"{module.__name__}.ghost")


def test_a_submodule_is_found_when_it_is_needed(load: Load) -> None:
    module = load({"__init__.py": b"def late():\n    from .sub.deep import x\n    return x\n", "sub/deep.py": b"x = 3"})
    assert module.late() == 3


def test_functions_pickle_and_show_their_source(load: Load, sources: dict[str, bytes]) -> None:
    twice = load(sources).twice
    assert pickle.loads(pickle.dumps(twice)) is twice  # noqa: S301  # our own bytes
    assert inspect.getsource(twice) == sources["layers.py"].decode()


def test_an_extension_module_is_loaded_from_the_kernel(load: Load) -> None:
    spec = importlib.util.find_spec("_queue")  # a small one that Python brings
    if spec is None or spec.origin in (None, "built-in"):
        pytest.skip("this Python has no extension module of its own to copy")
    binary = Path(str(spec.origin))
    module = load({"__init__.py": b"from . import _queue\n", binary.name: binary.read_bytes()})
    assert isinstance(module._queue.__spec__.loader, ExtensionFileLoader)
    assert module._queue.__name__ == f"{module.__name__}._queue"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise ValueError('boom')", "ValueError: boom"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("import not_installed_anywhere", "ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("def broken(:", "SyntaxError"),
        ("raise BaseException('odd')", "BaseException: odd"),
        ("from . import nothing", "ImportError"),
    ],
)
def test_a_failing_import_is_a_load_error_and_leaves_no_trace(load: Load, body: str, words: str) -> None:
    before = kernel_modules(), set(vars(kernelworks.loaded)), get_loaded_kernels()
    for _ in range(2):  # a retry sees nothing of the first try
        with pytest.raises(LoadError, match=words) as caught:
            load({"__init__.py": f"from . import part\n{body}\n".encode(), "part.py": b"x = 1"})
        assert caught.value.__cause__ is not None
        assert (kernel_modules(), set(vars(kernelworks.loaded)), get_loaded_kernels()) == before


def test_an_interrupt_passes_and_leaves_no_trace(load: Load) -> None:
    before = kernel_modules()
    with pytest.raises(KeyboardInterrupt):
        load({"__init__.py": b"from . import part\nraise KeyboardInterrupt\n", "part.py": b""})
    assert kernel_modules() == before


def test_a_kernel_that_loads_itself_is_told_so(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"__init__.py": b"import builtins\nbuiltins.load_again()\n"}
    monkeypatch.setattr("builtins.load_again", lambda: load(files), raising=False)
    with pytest.raises(LoadError, match="loads itself while it is being imported"):
        load(files)


def test_a_folder_without_an_init_file_is_a_load_error(load: Load) -> None:
    with pytest.raises(LoadError, match=r"__init__\.py"):
        load({"layers.py": b""})


def test_eight_threads_execute_a_kernel_exactly_once(
    variant: Variant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[int] = []
    prepared: list[int] = []
    monkeypatch.setattr("builtins.executed", executed, raising=False)
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/__init__.py").write_text("import time\ntime.sleep(0.05)\nexecuted.append(1)\n")
    this = dataclasses.replace(variant, wheel=FileEntry("w", 0, hash_bytes(str(tmp_path).encode())))
    barrier = threading.Barrier(8)
    modules = []

    def prepare() -> Path:
        prepared.append(1)
        return tmp_path / "kernel"

    def run() -> None:
        barrier.wait()
        modules.append(load_variant(this, Origin("org/demo", 1, None), prepare))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(executed), len(prepared), len(modules), len(set(map(id, modules)))) == (1, 1, 8, 1)


def test_other_imports_are_not_touched(load: Load, sources: dict[str, bytes], tmp_path: Path) -> None:
    load(sources)
    with pytest.raises(ModuleNotFoundError):
        __import__("kernelworks.loaded._unknown_kernel")
    shutil.rmtree(tmp_path)
    assert __import__("json") is sys.modules["json"]
