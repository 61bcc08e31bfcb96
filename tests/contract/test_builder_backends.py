"""A backend of the builder is data: no general code branches on its name, and a new row of the matrix is enough."""

from __future__ import annotations

import ast
from importlib.resources import files
from pathlib import Path
from typing import Any

import kernelworks_build
from kernelworks.model.variant_name import known_backends
from kernelworks_build.compile import compile_spec
from kernelworks_build.manifest import parse_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan
from kernelworks_build.toml import read_toml

PACKAGE = Path(kernelworks_build.__file__).parent
ALLOWED = {
    "cli/lock.py": "kinds of locks, of which one is called like the backend",
    "manifest/backends.py": "what each backend adds to the format",
    "manifest/model.py": "examples for editors, and the arch keys of `[torch-noarch]`",
    "toolchain/materialise.py": "names of recipes, of which one is called like the backend",
}
TOY_ROW: dict[str, Any] = {
    "defines": ["TOY_KERNEL"],
    "framework-libraries": {"torch": ["torch_toy"]},
    "libraries": ["toyrt"],
    "library-dirs": ["/opt/toy/lib"],
    "include-dirs": ["/opt/toy/include"],
    "device-suffixes": [".toy"],
    "device-compiler": "/opt/toy/bin/toycc",
    "device-flags": ["-fast"],
    "arch-flags": {"sass": "--target={arch}", "ptx": "--portable=v{digits}"},
    "mount": "/opt/toy",
    "unit-memory": {"full": 1, "stable": 1},
    "toolkit": [{"version": "2025.1", "lock": "toy-2025.1", "archs": ["1.0", "2.0+PTX"]}],
}
MANIFEST = """
[general]
name = "my-relu"
version = 1
edition = 5
license = "apache-2.0"
backends = ["xpu"]

[torch]
src = ["binding.cpp"]
stable-abi = "2.11"

[kernel.relu]
backend = "xpu"
depends = ["torch"]
src = ["relu.toy", "host.cpp"]
"""


def test_no_general_code_of_the_builder_names_a_backend() -> None:
    """`cpu` is also the word for the processor, as a key: only comparing with it is a branch."""
    names = set(known_backends())
    found = {}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        branches = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.MatchValue)]
        compared = {id(node) for branch in branches for node in ast.walk(branch)}
        if named := [
            f"{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in names and (node.value != "cpu" or id(node) in compared)
        ]:
            found[path.relative_to(PACKAGE).as_posix()] = named
    assert {path: named for path, named in found.items() if path not in ALLOWED} == {}
    assert found.keys() == ALLOWED.keys(), "an exception that nothing needs"


def test_a_new_backend_is_planned_and_lowered_from_its_row_alone() -> None:
    data = read_toml(files("kernelworks_build") / "matrix.toml")
    matrix = Matrix.from_toml({**data, "backend": {**data["backend"], "xpu": TOY_ROW}})
    manifest, diagnostics = parse_manifest(MANIFEST.encode(), "build.toml")
    assert manifest, diagnostics
    plan = make_plan(manifest, matrix, {"torch-2.11.0", "toy-2025.1"})
    assert plan.skipped == ()
    (planned,) = plan.variants
    assert tuple(planned.trees) == ("host", "sysroot", "python", "tools", "torch-2.11.0", "toy-2025.1")
    document = compile_spec(manifest, planned, matrix.backends["xpu"], "_my_relu").document
    (device,) = [unit for unit in document["units"] if unit["kind"] == "device"]
    assert device["source"] == "/src/relu.toy"
    assert device["command"][:6] == [
        "/opt/toy/bin/toycc",
        "-std=c++20",
        "-fast",
        "--target=1.0",
        "--target=2.0",
        "--portable=v20",
    ]
    assert "-DTOY_KERNEL" in device["command"]
    link = document["link"]["command"]
    assert {"-L/opt/toy/lib", "-ltorch_toy", "-ltoyrt"} <= set(link)
