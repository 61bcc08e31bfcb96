"""What a folder must not be, and which error says so: nothing of it is executed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks import get_kernel, get_loaded_kernels, get_local_kernel
from kernelworks.errors import KernelworksError, LoadError, RepositoryError, ResolveError, UsageError, VerifyError

CODE = b"import builtins\nbuiltins.executed.append(__name__)\n"
FILES = {"__init__.py": CODE, "part.py": b"x = 1\n", "_ops.abi3.so": b"\x7fELF" + bytes(200)}


def digest(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that ran."""
    names: list[str] = []
    monkeypatch.setattr("builtins.executed", names, raising=False)
    return names


@pytest.fixture
def folder(tmp_path: Path, this_process: Callable[..., Any]) -> Path:
    """A variant folder of another builder; with its library, which nothing opens."""
    this_process()
    made = tmp_path / "build/torch-stable-abi211-cpu-x86_64-linux"
    made.mkdir(parents=True)
    for name, data in FILES.items():
        (made / name).write_bytes(data)
    write_metadata(made)
    return made


def write_metadata(folder: Path, **changes: Any) -> None:
    """Let `metadata.json` tell of `FILES`, with `changes` (`_` for `-`; None removes a key)."""
    document: dict[str, Any] = {
        "id": "_demo_cpu_1a2b3c4d",
        "name": "demo",
        "version": 1,
        "license": "Apache-2.0",
        "python-depends": [],
        "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha256", "files": {name: digest(data) for name, data in FILES.items()}},
        **{key.replace("_", "-"): value for key, value in changes.items()},
    }
    (folder / "metadata.json").write_text(
        json.dumps({key: value for key, value in document.items() if value is not None})
    )


def test_the_folder_that_the_others_spoil_is_loaded_once(folder: Path, executed: list[str], monkeypatch: Any) -> None:
    module = get_local_kernel(folder)
    monkeypatch.chdir(folder.parent)
    assert get_local_kernel(folder.name) is get_local_kernel(os.fspath(folder.parent)) is module
    assert len(executed) == 1


def rename(folder: Path, name: str) -> None:
    folder.rename(folder.with_name(name))


def link_whole(folder: Path) -> None:
    folder.rename(folder.parent.parent / "elsewhere")
    folder.symlink_to(folder.parent.parent / "elsewhere")


def link_file(folder: Path) -> None:
    (folder / "part.py").rename(folder.parent.parent / "part.py")
    (folder / "part.py").symlink_to(folder.parent.parent / "part.py")


def cache_bytecode(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / f"__pycache__/part.{sys.implementation.cache_tag}.pyc").write_bytes(b"evil")


def text(content: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "metadata.json").write_text(content)


BAD: dict[str, tuple[Callable[[Path], Any], type[KernelworksError], str]] = {
    "no metadata": (
        lambda f: (f / "metadata.json").unlink(),
        RepositoryError,
        "neither `kernel.json` nor .*`metadata.json`",
    ),
    "no JSON": (text("{,}"), RepositoryError, r"metadata\.json` is not valid JSON: .*line 1 column 2"),
    "a key twice": (text('{"id": 1, "id": 2}'), RepositoryError, "key `id` is given twice"),
    "deep JSON": (text("[" * 5000), RepositoryError, "is not valid JSON|nested deeper"),
    "no id": (lambda f: write_metadata(f, id=None), RepositoryError, r"metadata\.json` lacks the key `id`"),
    **{
        f"id {bad!r}": (
            lambda f, bad=bad: write_metadata(f, id=bad),
            RepositoryError,
            r"`id` in .*metadata\.json` is `",
        )
        for bad in ("json", "torch", "../x", "", "os.path.evil", "_läb", "_a/b", "_a\n", "_" + "a" * 200)
    },
    "id is no text": (lambda f: write_metadata(f, id=3), RepositoryError, "`id` in .* must be a string"),
    "another backend": (
        lambda f: write_metadata(f, backend={"type": "cuda"}),
        RepositoryError,
        r"`backend\.type` .* is `cuda`, and the folder is for `cpu`",
    ),
    "a path out of the folder": (
        lambda f: write_metadata(f, digest={"algorithm": "sha256", "files": {"../x.py": digest(b"")}}),
        RepositoryError,
        "not a relative path inside its root",
    ),
    "another digest": (lambda f: (f / "part.py").write_bytes(b"x = 2\n"), VerifyError, r"`part\.py`: expected sha256"),
    "a file that is gone": (
        lambda f: (f / "part.py").unlink(),
        VerifyError,
        r"`part\.py`: expected a file, got nothing",
    ),
    "a library cut short": (lambda f: os.truncate(f / "_ops.abi3.so", 100), VerifyError, r"`_ops\.abi3\.so`: expected"),
    "a library that is damaged": (
        lambda f: (f / "_ops.abi3.so").write_bytes(b"\x7fELF" + b"\1" * 200),
        VerifyError,
        r"`_ops\.abi3\.so`",
    ),
    "a file too many": (lambda f: (f / "json.py").touch(), VerifyError, r"`json\.py`: expected nothing"),
    "a folder too many": (lambda f: (f / "json").mkdir(), VerifyError, "`json`: expected nothing, got an empty folder"),
    "bytecode": (lambda f: (f / "part.pyc").touch(), VerifyError, r"`part\.pyc`: expected nothing, got bytecode"),
    "cached bytecode": (cache_bytecode, VerifyError, "got bytecode, which could run in place of the source"),
    "a linked folder inside": (
        lambda f: (f / "sub").symlink_to("/usr"),
        VerifyError,
        "`sub`: expected nothing, got a symbolic link",
    ),
    "a linked file": (link_file, VerifyError, r"`part\.py`: expected a file, got a symbolic link"),
    "of another torch": (
        lambda f: rename(f, "torch29-cxx11-cpu-x86_64-linux"),
        ResolveError,
        "needs exactly torch 2.9, and this is torch 2.13",
    ),
    "of another system": (
        lambda f: rename(f, "torch-stable-abi211-cpu-aarch64-darwin"),
        ResolveError,
        "`darwin`.*`aarch64`",
    ),
    "linked": (link_whole, UsageError, "`elsewhere` is not a variant name"),
    "gone": (lambda f: shutil.rmtree(f.parent), RepositoryError, "does not exist"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_folder_is_refused_in_words_and_nothing_of_it_runs(folder: Path, executed: list[str], case: str) -> None:
    spoil, error, words = BAD[case]
    root = folder.parent
    spoil(folder)
    with pytest.raises(error, match=words) as caught:
        get_local_kernel(folder if folder.exists() else next(iter(root.glob("*")), root))
    assert type(caught.value) is error
    assert caught.value.message.isprintable() or error is ResolveError
    assert (executed, get_loaded_kernels()) == ([], ())


def test_a_variant_folder_that_is_a_link_is_refused_among_others_too(folder: Path, executed: list[str]) -> None:
    link_whole(folder)
    with pytest.raises(VerifyError, match="expected a folder, got a symbolic link"):
        get_local_kernel(folder.parent)
    assert executed == []


def test_a_file_for_a_folder_is_told(folder: Path) -> None:
    with pytest.raises(RepositoryError, match="is a file, not a folder"):
        get_local_kernel(folder / "part.py")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"raise ValueError(3)", "ValueError: 3"),
        (b"import sys; sys.exit()", "SystemExit"),
        (b"import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
    ],
)
def test_a_kernel_that_fails_leaves_no_module(folder: Path, body: bytes, words: str) -> None:
    (folder / "__init__.py").write_bytes(b"from . import part\n" + body)
    files = {**FILES, "__init__.py": b"from . import part\n" + body}
    write_metadata(
        folder, digest={"algorithm": "sha256", "files": {name: digest(data) for name, data in files.items()}}
    )
    for _ in range(2):
        with pytest.raises(LoadError, match=words):
            get_local_kernel(folder)
        assert [name for name in sys.modules if name.startswith("kernelworks.loaded.")] == []


def test_what_a_description_tells_besides_is_ignored(folder: Path, executed: list[str]) -> None:
    write_metadata(folder, of_a_newer_builder={"x": [1]})
    get_local_kernel(folder)
    assert len(executed) == 1


@pytest.mark.parametrize("entries", ["org/demo", "org/demo=", "org/demo=/with:colon"])
def test_local_kernels_that_cannot_be_read_are_told(monkeypatch: pytest.MonkeyPatch, entries: str) -> None:
    monkeypatch.setenv("LOCAL_KERNELS", entries)
    with pytest.raises(UsageError, match="in LOCAL_KERNELS is not `org/name=folder`; separate several entries by `:`"):
        get_kernel("org/demo")


@pytest.mark.usefixtures("executed")
def test_a_folder_that_local_kernels_names_is_checked_as_well(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_KERNELS", f"org/demo={folder}")
    (folder / "evil.py").touch()
    with pytest.raises(VerifyError, match=r"`evil\.py`: expected nothing"):
        get_kernel("org/demo")
