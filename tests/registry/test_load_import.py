from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import pickle
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kernelworks.loaded
from kernelworks.errors import LoadError, VerifyError
from kernelworks.kernel import Origin
from kernelworks.load import get_loaded_kernels, load_variant
from kernelworks.model.digest import FileEntry, hash_bytes, list_tree, tree_digest
from kernelworks.model.variant import KernelDependency, Variant

Load = Callable[..., ModuleType]


def no_dependency(need: KernelDependency) -> ModuleType:
    pytest.fail(f"`{need.repo_id}` was asked for")


@pytest.fixture
def load(tmp_path: Path, variant: Variant) -> Load:
    def load(files: Mapping[str, bytes], **facts: Any) -> ModuleType:
        """Load a kernel of these files; a kernel of equal files in the same test is the same kernel."""
        entries = tuple(FileEntry(path, len(data), hash_bytes(data)) for path, data in sorted(files.items()))
        folder = tmp_path / tree_digest(entries)
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        this = dataclasses.replace(variant, files=entries, **facts)
        return load_variant(this, Origin("org/demo", 1, None), lambda: folder, no_dependency)

    return load


@pytest.fixture
def binary() -> Path:
    """A small extension module that Python brings."""
    spec = importlib.util.find_spec("_queue")
    if spec is None or spec.origin in (None, "built-in"):
        pytest.skip("this Python has no extension module of its own to copy")
    return Path(str(spec.origin))


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


def test_an_extension_module_is_loaded_from_the_kernel(load: Load, binary: Path) -> None:
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
    this = dataclasses.replace(variant, files=tuple(list_tree(tmp_path / "kernel")))
    barrier = threading.Barrier(8)
    modules = []

    def prepare() -> Path:
        prepared.append(1)
        return tmp_path / "kernel"

    def run() -> None:
        barrier.wait()
        modules.append(load_variant(this, Origin("org/demo", 1, None), prepare, no_dependency))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(executed), len(prepared), len(modules), len(set(map(id, modules)))) == (1, 1, 8, 1)


def test_while_a_kernel_is_fetched_other_threads_import_what_they_like(
    variant: Variant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/__init__.py").touch()
    (tmp_path / "imported_by_another_thread.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    other = threading.Thread(target=importlib.import_module, args=("imported_by_another_thread",), daemon=True)

    def prepare() -> Path:
        other.start()
        other.join(60)
        assert not other.is_alive()
        return tmp_path / "kernel"

    this = dataclasses.replace(variant, files=tuple(list_tree(tmp_path / "kernel")))
    load_variant(this, Origin("org/demo", 1, None), prepare, no_dependency)
    del sys.modules["imported_by_another_thread"]


def test_a_source_that_changes_after_it_was_verified_is_not_executed(load: Load) -> None:
    module = load({"__init__.py": b"def late():\n    from . import part\n", "part.py": b"x = 1"})
    (Path(module.__file__ or "").parent / "part.py").write_bytes(b"x = 2")
    with pytest.raises(VerifyError, match=r"`part\.py`: expected sha256 .*, got sha256 .*; it has changed since"):
        module.late()


def test_a_library_that_changes_after_it_was_verified_is_not_opened(load: Load, binary: Path) -> None:
    module = load({"__init__.py": b"def late():\n    from . import _queue\n", binary.name: binary.read_bytes()})
    library = Path(module.__file__ or "").with_name(binary.name)
    data = library.read_bytes()
    library.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(VerifyError, match=r"`_queue.*`: expected sha256 .*, got sha256 .*; it has changed since"):
        module.late()
    library.write_bytes(data)
    module.late()


def test_a_file_that_appears_after_the_kernel_was_verified_is_not_imported(load: Load) -> None:
    module = load({"__init__.py": b"def late():\n    from . import json\n"})
    folder = Path(module.__file__ or "").parent
    for name in ("json.py", f"json{EXTENSION_SUFFIXES[0]}"):
        (folder / name).write_bytes(b"evil = 1")
        with pytest.raises(VerifyError, match=r"`json\..*`: expected nothing, got a file that is not listed"):
            module.late()
        (folder / name).unlink()


def test_a_change_while_the_kernel_is_being_imported_is_refused_as_such(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kernel_modules()
    monkeypatch.setattr("builtins.overwrite", lambda path: Path(path).write_bytes(b"x = 2"), raising=False)
    with pytest.raises(VerifyError, match=r"`part\.py`"):
        load({"__init__.py": b"overwrite(__path__[0] + '/part.py')\nfrom . import part\n", "part.py": b"x = 1"})
    assert kernel_modules() == before


@pytest.mark.skipif(sys.platform != "linux", reason="looks at ELF files")
@pytest.mark.parametrize("size", [0, 3, 64, 4096, -1])
def test_a_library_that_was_published_cut_short_is_refused_and_does_not_end_the_process(
    load: Load, binary: Path, size: int
) -> None:
    cut = binary.read_bytes()[:size]
    with pytest.raises(VerifyError, match=r"expected .*, got .*; ask its publisher to build it again") as caught:
        load({"__init__.py": b"from . import _queue\n", binary.name: cut})
    assert caught.value.context["file"] == binary.name


def test_two_builds_that_register_the_same_operators_are_not_loaded_together(load: Load, binary: Path) -> None:
    one = {"__init__.py": b"from . import _queue\n", binary.name: binary.read_bytes()}
    load(one)
    before = kernel_modules()
    with pytest.raises(LoadError, match=r"`torch\.ops\._demo_cpu_1a2b3c4d`, and so does `org/demo`") as caught:
        load({**one, "more.py": b""})
    assert str(caught.value).endswith("load one of them per process")
    assert kernel_modules() == before
    load({**one, "more.py": b""}, id="_demo_cpu_5e6f7a8b")
    load({"__init__.py": b""})  # without a library


def test_a_library_that_stays_open_after_a_failure_is_spoken_of(load: Load, binary: Path) -> None:
    code = b"from . import _queue\nraise ValueError\n"
    with pytest.raises(LoadError, match="its library stays open until this process ends"):
        load({"__init__.py": code, binary.name: binary.read_bytes()})


def test_a_kernel_is_not_reloaded_and_that_is_said(load: Load, sources: dict[str, bytes]) -> None:
    module = load(sources)
    for part in (module, module.layers):
        with pytest.raises(LoadError, match=f"`{part.__name__}` cannot be reloaded.*; start a new process"):
            importlib.reload(part)
    assert module.twice(1) == 2


def test_two_threads_that_wait_for_each_others_kernel_are_told_so(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    both, first_tries = threading.Barrier(2), [True, True]
    kernels = {
        name: {"__init__.py": f"meet()\nget('{other}')\nname = '{name}'\n".encode()}
        for name, other in (("one", "two"), ("two", "one"))
    }
    monkeypatch.setattr("builtins.meet", lambda: first_tries and first_tries.pop() and both.wait(), raising=False)
    monkeypatch.setattr("builtins.get", lambda name: load(kernels[name]), raising=False)
    failures = []

    def run(name: str) -> None:
        try:
            load(kernels[name])
        except LoadError as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any("loads itself while it is being imported, by way of another thread" in str(error) for error in failures)
    assert kernel_modules() == set()


def test_other_imports_are_not_touched(load: Load, sources: dict[str, bytes], tmp_path: Path) -> None:
    load(sources)
    with pytest.raises(ModuleNotFoundError):
        __import__("kernelworks.loaded._unknown_kernel")
    shutil.rmtree(tmp_path)
    assert __import__("json") is sys.modules["json"]
