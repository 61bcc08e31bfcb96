"""What is said of ops that sources register outside of the namespace of a build."""

from __future__ import annotations

from pathlib import Path

from kernelworks_build.audit.rules.op_namespace import RULE
from kernelworks_build.manifest import check_manifest
from kernelworks_build.template import create


def test_an_op_outside_of_the_namespace_is_named_with_its_place(tmp_path: Path) -> None:
    project = create("toy-kernel", "full_abi", tmp_path / "toy", ["cpu"])
    binding, init = project / "torch-ext" / "torch_binding.cpp", project / "torch-ext" / "toy_kernel" / "__init__.py"
    text = binding.read_text().replace("TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME,", "/* ours */ TORCH_LIBRARY(toy,")
    binding.write_text(text)
    init.write_text(init.read_text() + '\n\n@torch.library.register_fake("toy::sum")\ndef _(x):\n    return x\n')
    in_code, in_python = check_manifest(project)
    line = text[: text.index("/* ours */")].count("\n") + 1
    assert (in_code.file, in_code.line, in_code.column) == (str(binding), line, len("/* ours */ TORCH_LIBRARY(") + 1)
    assert in_code.what.startswith("registers `rms_norm`, `rms_norm_backward` in the namespace `toy`")
    assert (in_python.severity, in_python.code, in_python.file) == ("error", "op-namespace", str(init))
    assert in_python.column == len("@torch.library.register_fake(") + 1
    assert "`sum`" in in_python.what


def test_check_and_audit_give_the_same_advice(tmp_path: Path) -> None:
    project = create("toy-kernel", "full_abi", tmp_path / "toy", ["cpu"])
    for name, text in {
        "torch_binding.cpp": "\nTORCH_LIBRARY(toy, ops) {}\n",
        "toy_kernel/__init__.py": '\n\ntorch.library.define("toy::sum", "() -> ()")\n',
    }.items():
        with (project / "torch-ext" / name).open("a") as file:
            file.write(text)
    hints = [one.hint or "" for one in check_manifest(project)]
    assert len(hints) == 2
    assert all(hint and hint in RULE.hint for hint in hints)
