"""A kernel of a registry in a folder: what loaders read there is what they read here."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from kernelworks.cli import main
from kernelworks.errors import VerifyError
from kernelworks.model.digest import FileEntry
from kernelworks.model.index import Index, Source
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi, TorchSymbols, Variant
from kernelworks_server.folders import export_kernel
from kernelworks_server.records import AddFile, Repo
from kernelworks_server.rights import MACHINE
from kernelworks_server.services import Services

pytestmark = pytest.mark.backing("sqlite+folder", "sqlite+s3")

WHEEL, MODULE = b"the wheel", b"def double(x): return x + x"
VARIANT = Variant(
    name="torch-cpu",
    id="_relu_cpu_1",
    framework=FrameworkFacts("none", None),
    backend=BackendFacts("cpu", None),
    python_abi=PythonAbi("none", None),
    platform=Platform(None, None, None),
    libraries=(),
    torch_symbols=TorchSymbols(()),
    python_depends=(),
    wheel=FileEntry("wheels/relu-1-py3-none-any.whl", len(WHEEL), hashlib.sha256(WHEEL).hexdigest()),
    package="relu",
    files=(FileEntry("__init__.py", len(MODULE), hashlib.sha256(MODULE).hexdigest()),),
    lock="0" * 64,
    hermetic=True,
)


@pytest.fixture
def relu(services: Services) -> Repo:
    services.people.create_org("acme")
    return services.repositories.create(MACHINE, "kernel", "acme/relu", private=True)


def publish(services: Services, repo: Repo, version: int, module: bytes = MODULE) -> bytes:
    """The index of a new version, whose one variant consists of the wheel and of `module`."""
    index = Index("relu", version, "MIT", Source("0" * 64), "test 0", (VARIANT,)).to_bytes()
    files = {
        "kernel.json": index,
        "README.md": b"# relu",
        VARIANT.wheel.path: WHEEL,
        "build/torch-cpu/__init__.py": module,
        "secret.txt": b"what no index proves",
    }
    repositories = services.repositories
    repositories.create_branch(MACHINE, repo, f"v{version}", None)
    added = [
        AddFile(path, *repositories.receive(repo, [data], expected=None, limit=9_999), lfs=False)
        for path, data in files.items()
    ]
    repositories.commit(MACHINE, repo, f"v{version}", added, message="m", description="", parent=None)
    return index


def test_every_version_is_written_as_it_was_published_and_verifies(
    services: Services, relu: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    indexes = [publish(services, relu, version) for version in (1, 2)]

    written = [export_kernel(services, relu, tmp_path) for _ in range(2)]

    assert written == [[2, 1], [2, 1]]
    folder = tmp_path / "acme/relu"
    for version, index in enumerate(indexes, 1):
        revision = folder / "revisions" / (folder / f"refs/v{version}").read_text().strip()
        assert (revision / "kernel.json").read_bytes() == index
        assert (revision / VARIANT.wheel.path).read_bytes() == WHEEL
        assert {path.name for path in revision.iterdir()} == {"kernel.json", "README.md", "wheels", "build"}
    assert {path.name for path in folder.iterdir()} == {"refs", "revisions"}
    assert main(["verify", "acme/relu", "--registry", str(tmp_path)]) == 0, capsys.readouterr()


def test_a_yanked_version_and_one_without_an_index_are_left_out(services: Services, relu: Repo, tmp_path: Path) -> None:
    publish(services, relu, 1)
    publish(services, relu, 2)
    services.repositories.yank(MACHINE, relu, "v2")
    services.repositories.create_branch(MACHINE, relu, "v3", None)

    assert export_kernel(services, relu, tmp_path) == [1]
    assert [path.name for path in (tmp_path / "acme/relu/refs").iterdir()] == ["v1"]


def test_a_version_whose_files_are_not_those_of_its_index_is_refused(
    services: Services, relu: Repo, tmp_path: Path
) -> None:
    publish(services, relu, 1, module=b"something else")

    with pytest.raises(VerifyError) as caught:
        export_kernel(services, relu, tmp_path)

    assert caught.value.context["faults"] == ["build/torch-cpu/__init__.py"]
    assert not list(tmp_path.rglob("v1"))


def test_a_path_of_an_index_that_leaves_the_folder_is_not_written(
    services: Services, relu: Repo, tmp_path: Path
) -> None:
    evil = dataclasses.replace(VARIANT, files=(FileEntry("../../../../../evil", 3, "0" * 64),))
    index = Index("relu", 1, "MIT", Source("0" * 64), "test 0", (evil,)).to_bytes()
    repositories = services.repositories
    repositories.create_branch(MACHINE, relu, "v1", None)
    file = AddFile("kernel.json", *repositories.receive(relu, [index], expected=None, limit=9_999), lfs=False)
    repositories.commit(MACHINE, relu, "v1", [file], message="m", description="", parent=None)

    assert export_kernel(services, relu, tmp_path / "folder") == []
    assert list(tmp_path.rglob("*evil*")) == []
