"""`kernelworks lock`, `sync`, `list` and `verify --lock`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks import get_locked_kernel, load_kernel
from kernelworks.cli import main
from kernelworks.model.variant import FrameworkFacts, KernelDependency, Variant

Pack = Callable[..., tuple[Variant, bytes]]
NEWER = {"name": "torch-stable-abi214-cpu-x86_64-linux", "framework": FrameworkFacts("torch-stable-abi", (2, 14))}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[tool.kernelworks.dependencies]\n"org/relu" = 1\n')
    return folder


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_lock_says_what_has_changed_and_writes_nothing_else(
    registry: Any, pack: Pack, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = registry.publish("org/relu", 1, pack()).commit
    lockfile = project / "kernelworks.lock"
    assert main(["lock", str(project)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{lockfile}: 1 locked, 1 changed",
        "KERNEL              BEFORE  AFTER",
        f"org/relu version 1  -       {first[:16]}",
    ]
    written = lockfile.stat()
    assert main(["lock", str(project)]) == 0
    assert capsys.readouterr().out == f"{lockfile}: 1 locked, 0 changed\n"
    second = registry.publish("org/relu", 1, pack(), pack(**NEWER)).commit
    assert main(["lock", str(project), "--json"]) == 0
    assert document(capsys)["changes"] == []
    assert lockfile.stat().st_ino == written.st_ino
    assert main(["lock", str(project), "--upgrade", "--json"]) == 0
    assert document(capsys)["changes"] == [{"repo-id": "org/relu", "version": 1, "before": first, "after": second}]
    assert len(json.loads(lockfile.read_text())["kernels"][0]["variants"]) == 2


def test_commits_that_the_kernels_package_has_locked_are_kept(
    registry: Any, pack: Pack, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = registry.publish("org/relu", 1, pack()).commit
    registry.publish("org/relu", 1, pack(), pack(**NEWER))
    entry = {"dependency": {"repo-id": "org/relu", "version": 1}, "lock": {"commit": first}}
    (project / "kernels.lock").write_text(json.dumps([entry]))
    assert main(["lock", str(project), "--json"]) == 0
    (kernel,) = document(capsys)["kernels"]
    assert (kernel["commit"], len(kernel["variants"])) == (first, 1)


def test_a_lock_that_cannot_be_made_leaves_the_old_one(
    registry: Any, pack: Pack, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.publish("org/relu", 1, pack())
    main(["lock", str(project)])
    before = (project / "kernelworks.lock").read_bytes()
    (project / "pyproject.toml").write_text('[tool.kernelworks.dependencies]\n"org/relu" = 9\n"org/other" = 1\n')
    capsys.readouterr()
    assert main(["lock", str(project)]) == 10
    err = capsys.readouterr().err
    assert "no version 9" in err
    assert "no repository `org/other`" in err
    assert (project / "kernelworks.lock").read_bytes() == before


def test_sync_fetches_what_this_process_would_load_and_what_that_needs(
    registry: Any, pack: Pack, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.publish("org/base", 1, pack(id="_base_1"), pack(**NEWER, id="_base_1"))
    registry.publish("org/relu", 1, pack(kernel_depends=(KernelDependency("org/base", 1),)))
    main(["lock", str(project)])
    capsys.readouterr()
    assert main(["sync", str(project), "--json"]) == 0
    kernels = document(capsys)["kernels"]
    assert [(kernel["repo-id"], kernel["variant"]) for kernel in kernels] == [
        ("org/relu", "torch-stable-abi211-cpu-x86_64-linux"),
        ("org/base", "torch-stable-abi211-cpu-x86_64-linux"),
    ]
    assert all((Path(kernel["folder"]) / "layers.py").is_file() for kernel in kernels)
    assert main(["sync", str(project), "--all-variants"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert load_kernel("org/relu", lockfile=project).twice(2) == 4


def test_sync_tells_every_kernel_that_does_not_fit_and_fetches_the_others(
    registry: Any, pack: Pack, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.kernelworks.dependencies]\n"org/ab" = 1\n"org/bc" = 1\n"org/cd" = 1\n'
    )
    for name, kernel in (("ab", pack(**NEWER)), ("bc", pack(**NEWER)), ("cd", pack())):
        registry.publish(f"org/{name}", 1, kernel)
    main(["lock", str(project)])
    capsys.readouterr()
    assert main(["sync", str(project)]) == 13
    out, err = capsys.readouterr()
    assert [line.split()[:1] + line.split()[-2:-1] for line in out.splitlines()[2:4]] == [
        ["org/ab", "fetched"],
        ["org/bc", "fetched"],
    ]
    assert "no variant of `org/ab` fits" in err
    assert "no variant of `org/bc` fits" in err
    assert out.splitlines()[4].startswith("org/cd version 1  torch-stable-abi211-cpu-x86_64-linux  ")
    assert main(["sync", str(project / "nowhere")]) == 18


def test_list_says_what_the_cache_holds_and_what_nobody_knows(
    registry: Any, pack: Pack, processes: Any, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'cache'}: 0 bytes\n"
    published = registry.publish("org/relu", 1, pack())
    main(["lock", str(project)])
    get_locked_kernel("org/relu", lockfile=project)
    (tmp_path / "cache" / "kernels" / ("0" * 64)).mkdir()
    for record in (tmp_path / "cache" / "loaded").iterdir():
        os.utime(record, (0, time.time() - 3 * 86_400))
    capsys.readouterr()
    assert main(["list"]) == 0
    size = sum(entry.size for entry in published.variants[0].files)
    rows = [line.split(maxsplit=5) for line in capsys.readouterr().out.splitlines()[2:]]
    assert sorted(rows) == [
        ["-", "-", "-", "0" * 16, "0", "-"],
        ["org/relu", "1", published.commit[:16], published.variants[0].name, str(size), "3 days ago"],
    ]
    again = f"import kernelworks; kernelworks.get_locked_kernel('org/relu', lockfile={str(project)!r})"
    assert processes.start(again).communicate() == ("", "")
    main(["list"])
    assert "less than a minute ago" in capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    (layer,) = document(capsys)["layers"]
    known = [kernel["origin"] for kernel in layer["kernels"] if kernel["origin"]]
    assert known == [{"subject": "org/relu", "version": 1, "commit": published.commit, "registry": str(registry.root)}]


def test_verify_of_a_lock_looks_at_every_kernel_in_it(
    registry: Any, pack: Pack, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text('[tool.kernelworks.dependencies]\n"org/ab" = 1\n"org/bc" = 1\n')
    published = {name: registry.publish(f"org/{name}", 1, pack()) for name in ("ab", "bc")}
    main(["lock", str(project)])
    assert main(["verify", "--lock", str(project)]) == 0
    assert capsys.readouterr().out.count("are as published") == 2
    (published["ab"].folder / published["ab"].variants[0].wheel.path).write_bytes(b"short")
    lockfile = project / "kernelworks.lock"
    digest = published["bc"].variants[0].wheel.sha256
    head, _, tail = lockfile.read_text().rpartition(digest)
    lockfile.write_text(f"{head}{'f' * 64}{tail}")
    assert main(["verify", "--lock", str(project), "--json"]) == 14
    faults = {kernel["repo_id"]: kernel["faults"] for kernel in document(capsys)["kernels"]}
    assert [fault["got"] for fault in faults["org/ab"]] == ["5 bytes"]
    assert faults["org/bc"] == [
        {"file": published["bc"].variants[0].name, "expected": f"sha256 {'f' * 64} (locked)", "got": f"sha256 {digest}"}
    ]


@pytest.mark.parametrize("arguments", [[], ["org/demo", "--lock", "."], ["--lock", ".", "--version", "1"]])
def test_verify_does_one_thing(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *arguments]) == 2
    assert "one thing is verified at a time" in capsys.readouterr().err
