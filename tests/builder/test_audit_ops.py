"""Ops are found where they are registered, statically and by importing; those outside of the build's namespace fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelworks.model.variant import BackendFacts, FrameworkFacts, Platform, PythonAbi
from kernelworks_build.audit import audit
from kernelworks_build.audit.importing import import_check
from kernelworks_build.claims import Claims
from kernelworks_build.errors import AuditError
from kernelworks_build.registrations import read_registrations
from kernelworks_build.verdicts import FAIL, NOT_APPLICABLE, PASS

CLAIMS = Claims(
    name="torch-cpu",
    id="_toy_cpu_1a2b3c4d",
    package="toy",
    framework=FrameworkFacts("none", None),
    backend=BackendFacts("cpu", None),
    python_abi=PythonAbi("none", None),
    platform=Platform(None, None, None),
    torch_releases=(),
)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.cpp", 'TORCH_LIBRARY(my_ops, m) {\n  m.def("relu(Tensor x) -> Tensor");\n}', [(1, "my_ops", ("relu",))]),
        ("a.cu", "\n\nTORCH_LIBRARY_IMPL( aten, CUDA, m ) {}", [(3, "aten", ())]),
        ("a.cpp", 'STABLE_TORCH_LIBRARY_FRAGMENT(x, m) { m.impl("f", &f); }', [(1, "x", ("f",))]),
        (
            "a.cpp",
            'TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) { m.def("f"); }',
            [(1, "TORCH_EXTENSION_NAME", ("f",))],
        ),
        ("a.cpp", "TORCH_LIBRARY_EXPAND(MY_NAMESPACE, m) {}", []),
        ("a.cpp", "TORCH_LIBRARY(MY_NAMESPACE, m) {}", [(1, "MY_NAMESPACE", ())]),
        ("a.h", "#define TORCH_LIBRARY_EXPAND(NAME, M) \\\n  TORCH_LIBRARY(NAME, M)", []),
        ("a.cpp", "// TORCH_LIBRARY(a, m)\n/* TORCH_LIBRARY(b, m)\n */ TORCH_LIBRARY(c, m) {}", [(3, "c", ())]),
        ("a.inl", "TORCH_LIBRARY(c, m) {}", [(1, "c", ())]),
        ("a.cpp", 'auto s = "// no comment"; TORCH_LIBRARY(c, m) {}', [(1, "c", ())]),
        ("a.py", 'import torch\n@torch.library.custom_op("my::f", mutates_args=())\ndef f(): ...', [(2, "my", ("f",))]),
        ("a.py", 'import torch\ntorch.library.define("my::f(Tensor x) -> Tensor")', [(2, "my", ("f",))]),
        ("a.py", 'torch.library.define("my::f", "(Tensor x) -> Tensor")', [(1, "my", ("f",))]),
        ("a.py", 'lib = torch.library.Library("my", "DEF")', [(1, "my", ())]),
        ("a.py", 'torch.library.register_fake(f"my::{name}")', [(1, "my", ())]),
        ("a.py", "torch.library.register_fake(add_op_namespace_prefix('f'))", []),
        ("a.py", 'self.define("a::b")\nthing.impl("a::b")', []),
        ("a.py", "this is no Python (", []),
        ("a.txt", "TORCH_LIBRARY(a, m) {}", []),
    ],
)
def test_registrations_are_found_by_what_is_written(
    tmp_path: Path, name: str, text: str, found: list[tuple[int, str, tuple[str, ...]]]
) -> None:
    (tmp_path / "torch-ext").mkdir()
    (tmp_path / "torch-ext" / name).write_text(text)
    assert [(one.line, one.namespace, one.ops) for one in read_registrations(tmp_path)] == found


def test_the_audit_names_op_namespace_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a.cpp").write_text('\nTORCH_LIBRARY(my_ops, m) { m.def("relu(Tensor x) -> Tensor"); }')
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    report = audit(CLAIMS, tmp_path / "package", lambda _: frozenset(), tmp_path / "sources")
    (rule,) = [one for one in report.results if one.rule.id == "op-namespace"]
    assert rule.verdict == FAIL
    assert rule.findings[0].evidence == "registers `relu` in the namespace `my_ops`, not in that of the build"
    assert rule.findings[0].file == "a.cpp:2"
    with pytest.raises(AuditError) as caught:
        report.require()
    assert caught.value.hint == (
        "in C++, register ops under `TORCH_EXTENSION_NAME`, which `TORCH_LIBRARY_EXPAND` takes; "
        "in Python, name ops by `add_op_namespace_prefix` of `._ops`"
    )


def package(root: Path, code: str) -> Path:
    (root / "toy").mkdir()
    (root / "toy" / "__init__.py").write_text(code)
    return root / "toy"


@pytest.mark.parametrize(
    ("code", "verdict", "evidence"),
    [
        ("import torch\ntorch.library.define('_toy_cpu_1a2b3c4d::f', '() -> ()')", PASS, "registers 1 ops"),
        (
            "import torch\ntorch.library.define(':'.join(('my', '', 'f')), '() -> ()')",
            FAIL,
            "registers `my::f`, outside",
        ),
        ("1 / 0", FAIL, "importing it fails: ZeroDivisionError: division by zero"),
        ("import os; os._exit(3)", FAIL, "Python ended while it was imported (exit code 3)"),
        ("import a_package_that_nobody_has", NOT_APPLICABLE, "No module named 'a_package_that_nobody_has'"),
        ("from . import gone", FAIL, "cannot import name 'gone'"),
    ],
)
def test_importing_tells_what_reading_cannot(tmp_path: Path, code: str, verdict: str, evidence: str) -> None:
    pytest.importorskip("torch", reason="a package is imported with the torch that is installed")
    result = import_check(CLAIMS, package(tmp_path, code))
    assert result.verdict == verdict
    assert evidence in result.findings[-1].evidence


def test_a_variant_that_does_not_fit_the_installed_torch_is_not_imported(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="a package is imported with the torch that is installed")
    claims = replace(CLAIMS, platform=Platform("riscv64", "linux", (2, 28)))
    result = import_check(claims, package(tmp_path, "raise SystemExit(1)"))
    assert result.verdict == NOT_APPLICABLE
    assert "riscv64" in result.findings[0].evidence


@pytest.mark.sandbox
@pytest.mark.network
def test_code_of_a_wheel_is_run_only_when_asked(project: Path, kernel_build: Callable[..., Any]) -> None:
    (wheel,) = (project / "dist" / "wheels").iterdir()
    quiet, asked = (kernel_build("audit", wheel, "--json", *flags) for flags in ((), ("--import",)))
    assert (quiet.code, asked.code) == (0, 0)
    assert "import" not in [rule["rule"] for rule in quiet.document["wheels"][0]["rules"]]
    assert "import" in [rule["rule"] for rule in asked.document["wheels"][0]["rules"]]
