"""Components that a variant is built without are named with the reason."""

from __future__ import annotations

from dataclasses import replace

from kernelworks_build.manifest import parse_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan

MANIFEST = b"""\
[general]
name = "my-relu"
version = 1
edition = 5
license = "apache-2.0"
backends = ["cuda"]

[torch]
src = ["binding.cpp"]
stable-abi = "2.11"

[kernel.old]
backend = "cuda"
depends = ["torch"]
cuda-capabilities = ["8.0", "11.8"]
src = ["old.cu"]

[kernel.new]
backend = "cuda"
depends = ["torch"]
cuda-minver = "99.9"
src = ["new.cu"]
"""


def test_a_capability_that_only_another_toolkit_knows_is_a_reason_and_not_a_fault_of_the_manifest() -> None:
    manifest, _ = parse_manifest(MANIFEST.replace(b'["8.0", "11.8"]', b'["12.0"]'), "build.toml")
    assert manifest
    toolkits = {toolkit.lock: toolkit for toolkit in Matrix.load().backends["cuda"].toolkits}
    old = replace(toolkits["cuda-13.0"], version=(12, 4), lock="cuda-old", archs=("8.0", "9.0+PTX"))
    row = replace(Matrix.load().backends["cuda"], toolkits=(old, toolkits["cuda-13.0"]))
    matrix = replace(Matrix.load(), backends={"cuda": row})
    plan = make_plan(manifest, matrix, {"torch-2.11.0", "cuda-old"})
    assert plan.variants == ()
    assert any("no code for `12.0`, so `old` would have none" in skipped.reason for skipped in plan.skipped)


def test_a_component_that_needs_a_newer_toolkit_and_a_capability_without_code_are_named() -> None:
    manifest, _ = parse_manifest(MANIFEST, "build.toml")
    assert manifest
    plan = make_plan(manifest, Matrix.load(), {"torch-2.11.0", "cuda-13.0"})
    name = "torch-stable-abi211-cu130-x86_64-linux"
    assert [(variant.name, variant.components) for variant in plan.variants] == [(name, ("old",))]
    reasons = {skipped.subject: skipped.reason for skipped in plan.skipped}
    assert reasons[f"{name} new"] == "it needs toolkit 99.9 or newer"
    assert reasons[f"{name} old"].startswith("no code for `11.8` with this toolkit")
