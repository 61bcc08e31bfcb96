"""What importing the loader may bring into a process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

LIST = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules if not name.startswith('_')}))"


def modules_after(program: str) -> set[str]:
    run = [sys.executable, "-I", "-c", f"{program}\n{LIST}"]
    return set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_brings_no_third_party_module() -> None:
    added = modules_after("import kernelworks") - modules_after("")
    assert added <= {"kernelworks", "importlib", "warnings"}


def test_using_every_public_name_brings_no_third_party_module() -> None:
    added = modules_after("import kernelworks; [getattr(kernelworks, name) for name in kernelworks.__all__]")
    assert added - modules_after("") - set(sys.stdlib_module_names) == {"kernelworks"}


def test_the_help_of_the_program_brings_no_third_party_module() -> None:
    added = modules_after("from kernelworks.cli import main\ntry: main(['--help'])\nexcept SystemExit: print()")
    assert not added & {"torch", "packaging", "huggingface_hub"}


def test_loading_a_kernel_without_torch_in_reach_brings_no_third_party_module(
    registry: Any, pack: Any, processes: Any
) -> None:
    registry.publish("org/demo", 1, pack())
    process = processes.start(f"import kernelworks\nkernelworks.get_kernel('org/demo')\n{LIST}")
    out, err = process.communicate()
    assert err == ""
    assert set(out.split()) - modules_after("") - set(sys.stdlib_module_names) == {"kernelworks"}
