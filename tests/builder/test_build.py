"""Whole builds of the template kernel: the real program, sandbox and toolchain."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.digest import hash_file
from kernelworks_build.revision import check_revision, read_revision

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

CPU = "torch-stable-abi211-cpu-x86_64-linux"
CUDA = "torch-stable-abi211-cu130-x86_64-linux"
BOTH = ("--variant", CPU, "--variant", CUDA)
REPO_ID = "demo/silu-and-mul"
Program = Callable[..., Any]


def python(code: str, **env: str) -> str:
    """What a fresh interpreter prints for `code`."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def copy_of(project: Path, target: Path) -> Path:
    return Path(shutil.copytree(project, target, ignore=shutil.ignore_patterns("dist")))


def library(dist: Path) -> Path:
    (found,) = dist.glob(f"build/{CPU}/*.so")
    return found


def test_a_build_is_a_revision_whose_every_byte_is_listed(project: Path) -> None:
    index = read_revision(project / "dist")
    assert index is not None
    check_revision(project / "dist", index, hint="")
    (variant,) = index.variants
    assert (variant.name, variant.hermetic, variant.platform.glibc) == (CPU, True, (2, 28))
    assert "torch_call_dispatcher" in variant.torch_symbols.names


def test_the_audit_of_the_wheel_passes_with_evidence_for_every_rule(project: Path, kernel_build: Program) -> None:
    (wheel,) = (project / "dist" / "wheels").iterdir()
    done = kernel_build("audit", wheel, "--json")
    assert done.code == 0
    (report,) = done.document["wheels"]
    assert report["ok"]
    assert all(rule["findings"] for rule in report["rules"])
    assert "torch 2.11.0, 2.12.1, 2.13.0, 2.14.1, 2.15.0" in done.stdout


def test_a_wheel_with_one_flipped_byte_is_not_audited_but_refused(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    (wheel,) = (project / "dist" / "wheels").iterdir()
    data = bytearray(wheel.read_bytes())
    data[data.index(b"\x7fELF") + 4] = 1  # says that it is a 32-bit file
    broken = tmp_path / wheel.name
    broken.write_bytes(data)
    done = kernel_build("audit", broken, "--json")
    assert done.code == 26  # the zip's own checksum is wrong
    assert "cannot be read as a wheel" in done.document["error"]["message"]


def test_a_second_build_compiles_nothing_and_needs_no_sandbox(project: Path, kernel_build: Program) -> None:
    done = kernel_build("build", project, "--variant", "*-cpu-*", "--json", env={"PATH": "/nonexistent"})
    assert done.code == 0, done.stderr
    (variant,) = done.document["variants"]
    assert variant["cached"]
    assert variant["cpu-seconds"] > 0


def test_git_around_the_sources_changes_no_byte_of_the_wheel_and_is_told_in_the_index(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    twin = copy_of(project, tmp_path / "twin")

    def built() -> tuple[Any, Any]:
        done = kernel_build("build", twin, "--variant", "*-cpu-*", "--json", env=fresh_cache)
        assert done.code == 0, done.stderr
        return done.document["variants"][0], read_revision(twin / "dist")

    def git(*arguments: str) -> None:
        user = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
        subprocess.run(["git", *user, *arguments], cwd=twin, check=True, capture_output=True)

    plain, _ = built()
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    clean, index = built()
    assert clean["cached"]
    assert clean["wheel"] == plain["wheel"]
    assert len(index.source.commit) == 40
    assert not index.source.dirty
    (twin / "common" / "launch.h").write_text((twin / "common" / "launch.h").read_text() + "\n// edited\n")
    edited, index = built()
    assert index.source.dirty
    assert edited["wheel"]["sha256"] != plain["wheel"]["sha256"]
    refused = kernel_build("publish", twin, "--to", REPO_ID, "--registry", tmp_path / "registry")
    assert (refused.code, "--allow-dirty" in refused.stderr) == (27, True)
    assert "`common/launch.h`" in refused.stderr


def test_what_is_edited_while_it_is_built_is_not_taken_for_what_was_built(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    twin = copy_of(project, tmp_path / "twin")
    init = twin / "torch-ext" / "silu_and_mul" / "__init__.py"
    original = init.read_text()
    command = [str(Path(sys.executable).with_name("kernel-build")), "build", str(twin), "--variant", "*-cpu-*"]
    with subprocess.Popen(command, env={**os.environ, **fresh_cache}, stderr=subprocess.DEVNULL) as process:
        store = Path(fresh_cache["KERNELWORKS_CACHE"]) / "work"
        while not list(store.glob(".building-*/log")) and process.poll() is None:
            time.sleep(0.02)
        init.write_text(original + "EDITED = True\n")
        assert process.wait() == 0
    init.write_text(original)
    done = kernel_build("build", twin, "--variant", "*-cpu-*", "--json", env=fresh_cache)
    assert done.document["variants"][0]["cached"]
    assert (twin / "dist" / "build" / CPU / "__init__.py").read_text() == original


def test_two_builds_at_once_into_one_folder_end_with_both_variants(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    twin = copy_of(project, tmp_path / "twin")
    assert kernel_build("build", twin, *BOTH, "--arch", "9.0", "--out", tmp_path / "first").code == 0  # cached from now
    command = [str(Path(sys.executable).with_name("kernel-build")), "build", str(twin), "--arch", "9.0", "--variant"]
    running = [subprocess.Popen([*command, glob], stdout=subprocess.DEVNULL) for glob in ("*-cpu-*", "*-cu130-*") * 3]
    assert [process.wait() for process in running] == [0] * 6
    index = read_revision(twin / "dist")
    assert index is not None
    assert [variant.name for variant in index.variants] == [CPU, CUDA]
    check_revision(twin / "dist", index, hint="")


def test_a_folder_with_other_things_in_it_is_not_taken_for_the_output(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    thesis = tmp_path / "home" / "build" / "mine" / "thesis"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    done = kernel_build("build", project, "--variant", "*-cpu-*", "--out", tmp_path / "home")
    assert done.code == 2
    assert "is not empty, and nothing of it was built here" in done.stderr
    assert thesis.read_text() == "years of work"
    assert [path.name for path in (tmp_path / "home").iterdir() if path.name != ".lock"] == ["build"]


def test_a_truncated_index_in_dist_is_written_anew(project: Path, kernel_build: Program, tmp_path: Path) -> None:
    twin = Path(shutil.copytree(project, tmp_path / "twin"))
    (twin / "dist" / "kernel.json").write_text('{"schema": 1, ')
    assert kernel_build("build", twin, "--variant", "*-cpu-*").code == 0
    index = read_revision(twin / "dist")
    assert index is not None
    check_revision(twin / "dist", index, hint="")


@pytest.mark.cuda
def test_two_cuda_builds_are_equal_and_hold_the_archs_asked_for(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    wheels = set()
    for name, jobs in (("one", "1"), ("two", "2")):
        twin = copy_of(project, tmp_path / name)
        for results in ("actions", "variants"):
            shutil.rmtree(Path(fresh_cache["KERNELWORKS_CACHE"]) / results, ignore_errors=True)
        done = kernel_build(
            "build", twin, "--variant", "*-cu130-*", "--arch", "9.0", "--jobs", jobs, "--json", env=fresh_cache
        )
        assert done.code == 0, done.stderr
        (variant,) = done.document["variants"]
        assert variant["archs"] == {"sass": ["9.0"], "ptx": []}
        assert not variant["cached"]
        wheels.add(variant["wheel"]["sha256"])
    assert len(wheels) == 1


def test_without_a_sandbox_the_library_is_the_same_and_the_record_says_so(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("a change of root needs root")
    twin = copy_of(project, tmp_path / "twin")
    done = kernel_build("build", twin, "--variant", "*-cpu-*", "--sandbox", "none", "--json", env=fresh_cache)
    assert done.code == 0, done.stderr
    (variant,) = done.document["variants"]
    assert not variant["hermetic"]
    assert hash_file(library(twin / "dist")) == hash_file(library(project / "dist"))
    with zipfile.ZipFile(twin / "dist" / variant["wheel"]["path"]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("provenance.json"))
        record = json.loads(archive.read(name))
    assert (record["executor"], record["hermetic"]) == ("none", False)


def test_a_compile_error_shows_command_message_and_log_in_the_authors_words(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    broken = copy_of(project, tmp_path / "broken")
    source = broken / "cpu" / "silu_and_mul.cpp"
    lines = source.read_text().count("\n")
    source.write_text(source.read_text() + "int half(int x) { return x / tow; }\n")
    done = kernel_build("build", broken, "--variant", "*-cpu-*", env=fresh_cache)
    assert done.code == 24
    assert f"{source}:{lines + 1}:" in done.stderr
    assert "'tow' was not declared" in done.stderr
    assert "/opt/sysroot/bin/g++" in done.stderr
    assert "/src/" not in done.stderr
    log = broken / "dist" / "logs" / f"{CPU}.log"
    assert str(log) in done.stderr
    assert "tow" in log.read_text()
    assert not (broken / "dist" / "kernel.json").exists()


def test_a_variant_that_fails_keeps_no_other_from_being_built_and_dist_is_left_alone(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    broken = copy_of(project, tmp_path / "broken")
    for source in (broken / "cpu" / "silu_and_mul.cpp", broken / "cuda" / "silu_and_mul.cu"):
        whole = source.read_text()
        source.write_text(whole + f"int half(int x) {{ return x / {source.parent.name}_tow; }}\n")
        if source.parent.name == "cpu":
            one = kernel_build("build", broken, *BOTH, "--arch", "9.0", env=fresh_cache)
            assert (one.code, f"without a fault, and cached: `{CUDA}`" in one.stderr) == (24, True), one.stderr
    both = kernel_build("build", broken, *BOTH, "--arch", "9.0", "--json", env=fresh_cache)
    error = both.document["error"]
    assert (both.code, len(error["context"]["failed"]), error["context"]["built"]) == (24, 2, [])
    assert "cpu_tow" in error["message"]
    assert "cuda_tow" in error["message"]
    assert not (broken / "dist" / "kernel.json").exists()


def test_a_source_that_is_not_listed_is_not_seen_and_the_hint_says_so(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    broken = copy_of(project, tmp_path / "broken")
    manifest = broken / "build.toml"
    manifest.write_text(manifest.read_text().replace(', "common/silu.h"', ""))
    done = kernel_build("build", broken, "--variant", "*-cpu-*", env=fresh_cache)
    assert done.code == 24
    assert "`common/silu.h` exists but is not listed in `src`" in done.stderr


def test_a_library_that_would_not_load_with_a_claimed_torch_is_refused(
    project: Path, kernel_build: Program, fresh_cache: Mapping[str, str], tmp_path: Path
) -> None:
    broken = copy_of(project, tmp_path / "broken")
    source = broken / "cpu" / "silu_and_mul.cpp"
    source.write_text(
        source.read_text() + 'extern "C" int aoti_torch_of_tomorrow(); int f() { return aoti_torch_of_tomorrow(); }\n'
    )
    done = kernel_build("build", broken, "--variant", "*-cpu-*", "--json", env=fresh_cache)
    assert done.code == 25
    findings = done.document["error"]["context"]["findings"]
    assert any("aoti_torch_of_tomorrow" in finding["evidence"] for finding in findings)


def test_what_was_built_from_other_sources_is_neither_published_nor_tested(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    twin = Path(shutil.copytree(project, tmp_path / "twin"))
    silu = twin / "common" / "silu.h"
    silu.write_text(silu.read_text() + "\n// another formula\n")
    for command in (("publish", twin, "--registry", tmp_path / "registry"), ("test", twin)):
        done = kernel_build(*command)
        assert (done.code, "was built from other sources" in done.stderr) == (27, True), done.stderr


def test_publish_says_what_becomes_of_the_version(project: Path, kernel_build: Program, tmp_path: Path) -> None:
    arguments = ("publish", project, "--registry", tmp_path / "registry")
    assert f"{REPO_ID} v1 published" in kernel_build(*arguments).stderr
    assert f"{REPO_ID} v1 is there already" in kernel_build(*arguments).stderr
    (wheel,) = (tmp_path / "registry").glob("*/*/revisions/*/wheels/*.whl")
    wheel.write_bytes(b"rot")
    assert f"{REPO_ID} v1 repaired" in kernel_build(*arguments).stderr
    elsewhere = kernel_build(*arguments, "--to", "demo/other").stderr
    assert "build.toml names the repository `demo/silu-and-mul`, and this goes to `demo/other`" in elsewhere


def test_a_fresh_process_loads_what_was_published_and_computes_what_torch_does(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    registry = str(tmp_path / "registry")
    assert kernel_build("publish", project, "--to", REPO_ID, "--registry", registry).code == 0
    code = f"""
import torch
from kernelworks import get_kernel
kernel = get_kernel({REPO_ID!r}, version=1)
x = torch.randn(7, 34, dtype=torch.bfloat16, requires_grad=True)
out = kernel.silu_and_mul(x)
gate, value = x.chunk(2, -1)
torch.testing.assert_close(out, torch.nn.functional.silu(gate) * value, rtol=2e-2, atol=2e-2)
out.sum().backward()
print(kernel.__name__.startswith("kernelworks.loaded."), tuple(x.grad.shape))
"""
    printed = python(code, KERNELWORKS_REGISTRY=registry, KERNELWORKS_CACHE=str(tmp_path / "cache"))
    assert printed == "True (7, 34)\n"


def test_the_folder_of_the_variant_loads_with_the_kernels_package(project: Path) -> None:
    code = f"""
from pathlib import Path
import torch
from kernels import get_local_kernel
kernel = get_local_kernel(Path({str(project / "dist")!r}))
x = torch.randn(4, 8)
torch.testing.assert_close(kernel.silu_and_mul(x), torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
print("same")
"""
    assert python(code).endswith("same\n")


def test_an_independent_auditor_finds_only_the_stable_python_abi(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "abi3audit", "--assume-minimum-abi3", "3.9", "--report", str(library(project / "dist"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (spec,) = json.loads(done.stdout)["specs"].values()
    result = spec["object"]["result"]
    assert (result["is_abi3"], result["computed"], result["non_abi3_symbols"]) == (True, "3.9", [])


def test_a_variant_of_other_sources_leaves_dist_and_the_authors_files_stay(
    project: Path, kernel_build: Program, tmp_path: Path
) -> None:
    twin = Path(shutil.copytree(project, tmp_path / "twin"))
    (twin / "dist" / "wheels" / "notes.txt").write_text("mine")
    launch = twin / "common" / "launch.h"
    launch.write_text(launch.read_text() + "\n// a comment\n")
    assert kernel_build("build", twin, "--variant", "*-cu130-*", "--arch", "9.0").code == 0
    index = read_revision(twin / "dist")
    assert index is not None
    assert [variant.name for variant in index.variants] == [CUDA]
    assert sorted(path.name for path in (twin / "dist" / "wheels").iterdir()) == [
        "notes.txt",
        Path(index.variants[0].wheel.path).name,
    ]
    assert [path.name for path in (twin / "dist" / "build").iterdir()] == [CUDA]
