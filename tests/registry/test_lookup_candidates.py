"""What only a look at this machine tells of a variant: torch's symbols, shared libraries, Python packages."""

from __future__ import annotations

import _ctypes
import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import kernelworks
from kernelworks.binaries import libraries, symbols
from kernelworks.binaries.elf import ElfError
from kernelworks.compat import Rejected, shortfalls
from kernelworks.host import HostEnv
from kernelworks.lookup import Absent, look_into, look_up
from kernelworks.model.digest import FileEntry
from kernelworks.model.python_packages import PythonPackage, known_packages, python_package
from kernelworks.model.torch_symbols import library_patterns
from kernelworks.model.variant import FrameworkFacts, TorchSymbols, Variant
from kernelworks.resolve import weigh

INVENTED = "_ZN2at8inventedEi"
needs_torch = pytest.mark.skipif(symbols.torch_folder() is None, reason="needs torch, whose libraries are asked")


@needs_torch
def test_what_torch_itself_imports_is_there(host: HostEnv) -> None:
    folder = symbols.torch_folder()
    assert folder
    assert symbols.missing_of_files([folder / "libtorch_python.so"], host) == ()


@needs_torch
def test_an_invented_symbol_is_named(variant: Variant, host: HostEnv) -> None:
    wrong = dataclasses.replace(variant, torch_symbols=TorchSymbols(("aoti_torch_abi_version", INVENTED)))
    assert symbols.missing(wrong, host) == (INVENTED,)
    assert symbols.missing(variant, host) == ()
    assert symbols.missing(wrong, dataclasses.replace(host, torch=None)) == ()


@needs_torch
def test_torch_is_not_imported_to_look_into_it() -> None:
    program = (
        "import sys\nfrom types import SimpleNamespace as Of\nfrom kernelworks.binaries import symbols\n"
        "wanted = Of(torch_symbols=Of(names=('aoti_torch_abi_version', 'aoti_torch_invented')))\n"
        "print(symbols.missing(wanted, Of(torch='2')), 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "('aoti_torch_invented',) False\n"


def test_a_library_that_changes_is_asked_anew(
    variant: Variant, host: HostEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wants = dataclasses.replace(variant, torch_symbols=TorchSymbols(("PyInit__ctypes",)))
    monkeypatch.setattr(symbols, "torch_folder", lambda: tmp_path)
    assert symbols.missing(wants, host) == ()  # no library of torch, and so nobody knows
    shutil.copy(_ctypes.__file__, tmp_path / "libtorch_cpu.so")
    assert symbols.missing(wants, host) == ()
    data = (tmp_path / "libtorch_cpu.so").read_bytes()
    (tmp_path / "libtorch_cpu.so").write_bytes(data.replace(b"PyInit__ctypes", b"PyInit__xxxxxx") + b"\0")
    assert symbols.missing(wants, host) == ("PyInit__ctypes",)


@needs_torch
def test_the_next_variant_is_taken_where_torch_lacks_a_symbol_and_the_reason_names_it(
    registry: Any, pack: Callable[..., Any]
) -> None:
    best = pack(
        name="torch213-cxx11-cpu-x86_64-linux",
        framework=FrameworkFacts("torch", (2, 13), cxx11=True),
        torch_symbols=TorchSymbols((INVENTED,)),
    )
    next_best = pack()
    registry.publish("org/demo", 1, best, next_best)
    kernelworks.get_kernel("org/demo")
    explanation = kernelworks.explain("org/demo")
    assert explanation.chosen == next_best[0].name
    rejected = explanation.verdicts[-1]
    assert isinstance(rejected, Rejected)
    (reason,) = rejected.reasons
    assert reason.text.startswith("imports `at::invented(int)`, which the installed torch 2.13.0+cpu does not define")
    assert reason.remedy == "install the release of torch 2.13 that it was built for"


def test_only_candidates_are_looked_up_the_best_first_until_one_lacks_nothing(variant: Variant, host: HostEnv) -> None:
    asked: list[str] = []

    def check(asked_for: Variant, _host: HostEnv) -> Absent:
        asked.append(asked_for.name)
        return Absent(symbols=("a",) * (len(asked) < 2))

    floors = [
        dataclasses.replace(variant, name=f"v{minor}", framework=FrameworkFacts("torch-stable-abi", (2, minor)))
        for minor in (9, 14, 10, 11)
    ]
    verdicts = weigh(floors, host, check=check)
    assert asked == ["v11", "v10"]
    assert [verdict.variant.name for verdict in verdicts] == ["v10", "v9", "v14", "v11"]


def test_many_missing_symbols_are_counted_and_the_first_are_named(variant: Variant, host: HostEnv) -> None:
    (reason,) = shortfalls(variant, host, Absent(symbols=("a", "b", "c", "d")))
    assert reason.text.startswith("imports `a`, `b`, `c` and 1 more, which the installed torch")


def test_libraries_are_found_where_the_dynamic_linker_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not libraries._LINKER_CACHE.exists():
        pytest.skip("this system has no cache of the dynamic linker")
    assert libraries.unresolved(["libc.so.6", "libnowhere.so.7"]) == ("libnowhere.so.7",)
    (tmp_path / "libnowhere.so.7").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/none:{tmp_path}")
    assert libraries.unresolved(["libnowhere.so.7"]) == ()


def test_where_the_linker_has_no_cache_no_library_is_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "_LINKER_CACHE", tmp_path / "none")
    assert libraries.unresolved(["libnowhere.so.7"]) == ()


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (b"\0libnowhere.so.7\0/lib/libnowhere.so.7\0", True),
        (b"\0/lib/libnowhere.so.7\0", True),
        (b"\0libnowhere.so.70\0", False),
        (b"\0xlibnowhere.so.7\0", False),
    ],
)
def test_a_name_is_in_the_linkers_cache_whole_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bytes, found: bool
) -> None:
    (tmp_path / "cache").write_bytes(listed)
    monkeypatch.setattr(libraries, "_LINKER_CACHE", tmp_path / "cache")
    assert (libraries.unresolved(["libnowhere.so.7"]) == ()) is found


def test_a_library_that_the_kernel_brings_itself_is_not_looked_for(variant: Variant, host: HostEnv) -> None:
    needs = dataclasses.replace(variant, libraries=("libown.so", "libc.so.6"))
    own = dataclasses.replace(needs, files=(FileEntry("lib/libown.so", 1, "0" * 64),))
    assert look_up(own, host).libraries == ()


def test_a_missing_python_package_is_told_with_the_command_that_installs_it(variant: Variant, host: HostEnv) -> None:
    needs = dataclasses.replace(variant, torch_symbols=TorchSymbols(()), python_depends=("packaging", "no-such-thing"))
    absent = look_up(needs, host)
    assert absent == Absent(packages=(PythonPackage("no-such-thing", "general", "no-such-thing", "no_such_thing"),))
    (reason,) = shortfalls(needs, host, absent)
    assert reason.text == "needs the Python package `no-such-thing`, which is not installed"
    assert reason.remedy == "install it: `pip install no-such-thing`"


def test_a_package_name_that_is_no_module_name_imports_nothing(variant: Variant, host: HostEnv) -> None:
    needs = dataclasses.replace(variant, torch_symbols=TorchSymbols(()), python_depends=("wsgiref.x",))
    before = set(sys.modules)
    assert [package.package for package in look_up(needs, host).packages] == ["wsgiref.x"]
    assert set(sys.modules) == before


def test_the_table_of_packages_is_sorted_and_tells_package_from_module() -> None:
    names = [package.name for package in known_packages()]
    assert names == sorted(set(names))
    assert python_package("nvidia-cutlass-dsl").module == "cutlass"


def test_the_tables_of_torch_symbols_and_cpu_features_are_in_order() -> None:
    patterns = library_patterns()
    assert list(patterns) == sorted(set(patterns))
    levels = json.loads(resources.files("kernelworks.model").joinpath("cpu_features.json").read_bytes())
    assert list(levels) == sorted(levels)
    assert all(flags == sorted(set(flags)) for flags in levels.values())


def test_files_that_are_no_whole_shared_objects_are_refused(tmp_path: Path, host: HostEnv) -> None:
    data = Path(_ctypes.__file__).read_bytes()
    (tmp_path / "a.so").write_bytes(data[: len(data) // 2])
    with pytest.raises(ElfError, match="that ends at byte"):
        look_into([tmp_path / "a.so"], host)


def test_what_a_file_of_another_builder_imports_from_others_than_torch_is_not_looked_up(host: HostEnv) -> None:
    assert look_into([Path(_ctypes.__file__)], host) == Absent()
