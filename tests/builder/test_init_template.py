"""A new kernel appears whole or not at all, under a name that everything else accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from kernelworks.errors import UsageError
from kernelworks_build import resources, template
from kernelworks_build.manifest import MANIFEST, check_manifest, read_manifest
from kernelworks_build.template import create, templates
from kernelworks_build.toml import read_toml

WRITTEN_FOR = {
    name: tuple(read_toml(resources.TEMPLATES / name / MANIFEST)["general"]["backends"]) for name in templates()
}
PARTS = [
    (name, chosen)
    for name, backends in WRITTEN_FOR.items()
    for size in range(1, len(backends) + 1)
    for chosen in combinations(backends, size)
]
"""Every template with every choice of its backends."""


@pytest.mark.parametrize("name", templates())
def test_every_template_gives_a_kernel_without_a_fault(tmp_path: Path, name: str) -> None:
    folder = create("my-org/toy-kernel", name, tmp_path / "toy")
    assert check_manifest(folder) == []


@pytest.mark.parametrize(
    ("name", "backends"), PARTS, ids=lambda part: part if isinstance(part, str) else "-".join(part)
)
def test_a_part_of_a_template_is_a_kernel_without_a_fault(tmp_path: Path, name: str, backends: tuple[str, ...]) -> None:
    folder = create("my-org/toy-kernel", name, tmp_path / "toy", backends)
    assert check_manifest(folder) == []
    manifest = read_manifest(folder)
    assert manifest.backends == backends
    assert {component.backend for component in manifest.components} <= set(backends)
    for path in (path for path in folder.rglob("*") if path.is_file()):
        text = path.read_text()
        assert not re.search("__(WITH|WITHOUT|END|BACKENDS)", text), path
        if path.suffix == ".py":
            compile(text, path, "exec")


def test_only_what_a_backend_needs_is_copied(tmp_path: Path) -> None:
    folder = create("toy-kernel", "stable_abi", tmp_path / "toy", ["cuda"])
    assert "for CUDA:" in (folder / "README.md").read_text()
    assert not (folder / "cpu").exists()
    assert (folder / "cuda" / "silu_and_mul.cu").is_file()
    package = create("toy-kernel", "triton", tmp_path / "other", ["cpu"]) / "torch-ext" / "toy_kernel"
    assert sorted(path.name for path in package.iterdir()) == ["__init__.py", "by_torch.py"]


def test_a_backend_that_the_template_lacks_is_answered_with_templates_that_have_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not written for `cuda` \\(it is for: cpu\\)") as caught:
        create("toy-kernel", "cpu", tmp_path / "toy", ["cuda", "cpu"])
    assert str(caught.value.hint).startswith("templates for `cuda` and `cpu`: ")
    assert "multi_backend" in str(caught.value.hint)
    with pytest.raises(UsageError) as caught:
        create("toy-kernel", "cpu", tmp_path / "toy", ["metal"])
    assert caught.value.hint == "no template is for `metal`; there are some for: cpu, cuda, rocm"
    with pytest.raises(UsageError) as caught:
        create("toy-kernel", "cpu", tmp_path / "toy", ["cud"])
    assert caught.value.hint == "did you mean `cuda`?"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_taken_and_nothing_else_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    create("toy-kernel", "stable_abi", tmp_path / "toy")
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]
    assert 'repo-id = "my-org/toy-kernel"' in (tmp_path / "toy" / "build.toml").read_text()


def test_an_init_that_ends_in_the_middle_leaves_nothing_that_blocks_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(template, "_copy", full)
        with pytest.raises(OSError, match="no space left") as caught:
            create("toy-kernel", "stable_abi", tmp_path / "toy")
    assert caught.value.filename == str(tmp_path / "toy")
    assert not (tmp_path / "toy").exists()
    (tmp_path / ".toy-kernel-killed" / "toy-kernel").mkdir(parents=True)  # what a kill leaves
    assert create("toy-kernel", "stable_abi", tmp_path / "toy").is_dir()


def _file(path: Path) -> None:
    path.touch()


def _full(path: Path) -> None:
    path.mkdir()
    (path / "x").touch()


def _link(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("make", "words"),
    [(_file, "is not a folder"), (_full, "is not empty"), (_link, "is a symbolic link")],
)
def test_what_is_there_already_is_left_alone(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    make(tmp_path / "toy")
    with pytest.raises(UsageError, match=words):
        create("toy-kernel", "stable_abi", tmp_path / "toy")
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


def test_the_current_folder_is_not_pulled_away_from_under_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="is the current folder"):
        create("toy-kernel", "stable_abi", Path())


@pytest.mark.parametrize(
    ("name", "hint"),
    [("ünï", "try `uni`"), ("核核a", "looks like `silu-and-mul`"), ("a/b/cc", "an id is `org/name`")],
)
def test_a_refused_name_is_answered_with_one_that_is_near_or_with_the_form(
    tmp_path: Path, name: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        create(name, "stable_abi", tmp_path / "toy")
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("name", ["a/b/toy", "/toy", "org.-/toy", "a..b/toy", "org/import", "org/Toy"])
def test_a_name_that_could_not_be_published_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        create(name, "stable_abi", tmp_path / "toy")
    assert list(tmp_path.iterdir()) == []
