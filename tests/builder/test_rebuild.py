"""A wheel is made again from its own record: from a folder, from git's commit, and not when it was changed."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kernelworks_build.wheel import WheelName, read_records, unpack_wheel, write_wheel

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

Program = Callable[..., Any]


def git(folder: Path, *arguments: str) -> None:
    user = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    subprocess.run(["git", *user, *arguments], cwd=folder, check=True, capture_output=True)


def copy_of(project: Path, target: Path) -> Path:
    return Path(shutil.copytree(project, target, ignore=shutil.ignore_patterns("dist")))


def wheel_of(project: Path) -> Path:
    (wheel,) = (project / "dist" / "wheels").iterdir()
    return wheel


@pytest.mark.slow
def test_a_wheel_is_made_again_from_the_commit_that_the_index_beside_it_names(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    twin = copy_of(project, tmp_path / "repository" / "kernels" / "twin")
    manifest = twin / "build.toml"
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/repository/.git"
        manifest.write_text(manifest.read_text().replace("edition = 5\n", f'edition = 5\nsource = "{url}"\n'))
        git(tmp_path / "repository", "init")
        git(tmp_path / "repository", "add", ".")
        git(tmp_path / "repository", "commit", "-m", "first")
        git(tmp_path / "repository", "update-server-info")  # for a server that knows nothing of git
        assert kernel_build("build", twin, "--variant", "*-cpu-*").code == 0
        manifest.write_text("")  # what is committed counts
        done = kernel_build("rebuild", wheel_of(twin), "--json")
        server.shutdown()
    assert done.code == 0, done.stderr
    assert done.document["equal"]


def test_sources_that_differ_are_listed_before_anything_is_built(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    twin = copy_of(project, tmp_path / "twin")
    package = twin / "torch-ext" / "silu_and_mul"
    (package / "added.py").write_text("")
    (package / "__init__.py").write_text((package / "__init__.py").read_text() + "# edited\n")
    shutil.rmtree(package / "layers")
    done = kernel_build("rebuild", wheel_of(project), "--source", twin, "--json")
    assert done.code == 29
    assert done.document["error"]["context"]["files"] == [
        "`torch-ext/silu_and_mul/__init__.py` differs",
        "`torch-ext/silu_and_mul/added.py` is new",
        "`torch-ext/silu_and_mul/layers/__init__.py` is missing",
    ]


def test_a_wheel_with_another_library_is_told_by_section_and_kept_apart(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    wheel = wheel_of(project)
    claims, package = unpack_wheel(wheel, tmp_path / "unpacked")
    (library,) = package.glob("*.so")
    data = bytearray(library.read_bytes())
    data[data.index(b"GCC: (Debian")] ^= 1  # a byte of `.comment`
    library.write_bytes(data)
    changed = tmp_path / wheel.name
    _, records = read_records(wheel)
    records.pop("metadata.json")
    name = WheelName(*wheel.stem.split("-", 2))
    write_wheel(
        changed,
        name,
        metadata={"License": "Apache-2.0", "Summary": "GPU kernel silu-and-mul"},
        framework=claims.framework,
        python_abi=claims.python_abi,
        package=package,
        records=records,
    )
    done = kernel_build("rebuild", changed, "--source", project, "--out", tmp_path / "again", "--json")
    assert done.code == 29
    difference = done.document["error"]["context"]["difference"]
    assert difference["members"] == [f"silu_and_mul/{library.name}", f"{name.dist_info}/RECORD"]
    assert difference["place"][:2] == [f"silu_and_mul/{library.name}", "section .comment"]
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()


def test_a_wheel_that_says_not_where_its_sources_are_asks_for_them(project: Path, kernel_build: Program) -> None:
    done = kernel_build("rebuild", wheel_of(project))
    assert done.code == 29
    assert "--source" in done.stderr
