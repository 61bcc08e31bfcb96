from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks.backends.spec import HostBackend
from kernelworks.cli import main
from kernelworks.errors import HostError
from kernelworks.model.variant import FrameworkFacts, Variant

Pack = Callable[..., tuple[Variant, bytes]]
NEWER = {
    "framework": FrameworkFacts("torch-stable-abi", (2, 14)),
    "name": "torch-stable-abi214-cpu-x86_64-linux",
}


def test_explain_prints_a_table(registry: Any, pack: Pack, capsys: pytest.CaptureFixture[str]) -> None:
    registry.publish("org/demo", 1, pack(), pack(**NEWER))
    assert main(["explain", "org/demo"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "org/demo, version 1",
        "VARIANT                               FITS   WHY NOT",
        "torch-stable-abi211-cpu-x86_64-linux  taken",
        f"{NEWER['name']}  no     needs torch 2.14 or newer, and this is torch 2.13.0+cpu",
    ]
    assert err == ""


def test_explain_of_what_does_not_fit_prints_the_table_and_ends_as_the_error_would(
    registry: Any, pack: Pack, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.publish("org/demo", 1, pack(**NEWER))
    assert main(["explain", "org/demo", "--version", "1"]) == 13
    out, err = capsys.readouterr()
    assert "needs torch 2.14" in out
    assert out.splitlines()[-1] == f'to use `{NEWER["name"]}`, install it: `pip install "torch>=2.14"`'
    assert err == "error: no variant of `org/demo` fits this process\n"
    assert main(["explain", "org/demo", "--json"]) == 13
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["chosen"] is None
    assert document["ways_out"] == [
        {"variant": NEWER["name"], "remedies": ['install it: `pip install "torch>=2.14"`'], "in_call": False}
    ]
    assert err == ""


def test_info_lists_every_version(registry: Any, pack: Pack, capsys: pytest.CaptureFixture[str]) -> None:
    commits = [registry.publish("org/demo", version, pack()).commit for version in (1, 2)]
    assert main(["info", "org/demo", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(item["version"], item["commit"]) for item in document["versions"]] == [
        (2, commits[1]),
        (1, commits[0]),
    ]
    assert main(["info", "org/demo"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_info_marks_what_was_built_without_isolation(
    registry: Any, pack: Pack, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.publish("org/demo", 1, pack(), pack(**NEWER, hermetic=False))
    assert main(["info", "org/demo"]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    marked = {row[head.index("VARIANT")]: row[head.index("HERMETIC")] for row in rows}
    assert marked == {"torch-stable-abi211-cpu-x86_64-linux": "yes", NEWER["name"]: "no"}


def test_on_a_terminal_the_reasons_are_wrapped_and_the_names_are_not(
    registry: Any, pack: Pack, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.publish("org/demo", 1, pack(), pack(**NEWER))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["explain", "org/demo"]) == 0
    assert capsys.readouterr().out.splitlines()[3:] == [
        f"{NEWER['name']}  no     needs torch 2.14 or newer, and this",
        f"{'':45}is torch 2.13.0+cpu",
    ]
    monkeypatch.setenv("COLUMNS", "20")
    main(["explain", "org/demo"])
    assert f"\n{NEWER['name']}  " in capsys.readouterr().out


def test_verify_says_that_every_byte_is_there(registry: Any, pack: Pack, capsys: pytest.CaptureFixture[str]) -> None:
    published = [registry.publish("org/demo", version, pack()) for version in (1, 2)]
    assert main(["verify", "org/demo"]) == 0
    out, err = capsys.readouterr()
    assert f"version 2, commit {published[1].commit}\nall 4 files, " in out
    assert err == ""
    assert main(["verify", "org/demo", "--version", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["version"], document["commit"], document["files"]) == (1, published[0].commit, 4)
    assert document["faults"] == []


def test_verify_names_every_damaged_file_and_ends_as_the_error_would(
    registry: Any, pack: Pack, capsys: pytest.CaptureFixture[str]
) -> None:
    published = registry.publish("org/demo", 1, pack())
    wheel, build = published.variants[0].wheel.path, f"build/{published.variants[0].name}"
    (published.folder / wheel).write_bytes(b"short")
    (published.folder / build / "layers.py").unlink()
    (published.folder / build / "__init__.py").unlink()
    (published.folder / build / "__init__.py").mkdir()
    assert main(["verify", "org/demo", "--json"]) == 14
    out, err = capsys.readouterr()
    faults = {fault["file"]: (fault["expected"], fault["got"]) for fault in json.loads(out)["faults"]}
    assert err == ""
    assert faults.keys() == {wheel, f"{build}/layers.py", f"{build}/__init__.py"}
    assert faults[wheel] == (f"{published.variants[0].wheel.size} bytes", "5 bytes")
    assert faults[f"{build}/layers.py"] == ("a file", "nothing")
    assert faults[f"{build}/__init__.py"][0] == "a file that can be read"
    assert main(["verify", "org/demo"]) == 14
    out, err = capsys.readouterr()
    assert all(file in out for file in faults)
    assert err.startswith(f"error: `{published.folder}` is not what was published: `{wheel}`: expected")


def test_verify_refuses_an_index_that_is_not_the_commits(
    registry: Any, pack: Pack, capsys: pytest.CaptureFixture[str]
) -> None:
    published = registry.publish("org/demo", 1, pack())
    (published.folder / "kernel.json").write_bytes(b"{}")
    assert main(["verify", "org/demo", "--json"]) == 14
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["context"]["file"] == str(published.folder / "kernel.json")
    assert error["context"]["expected"] == f"sha256 {published.commit}"


def test_the_hint_for_a_missing_registry_fits_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ("info", "explain", "verify"):
        assert main([command, "org/demo", "--registry", "/nowhere"]) == 11
        assert "registry=" not in capsys.readouterr().err


def test_doctor_says_what_this_process_is(registry: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["registries"] == [str(registry.root)]
    assert document["host"]["backends"] == [{"name": "cpu", "version": None, "devices": [], "driver": None}]
    assert [fit["name"] for fit in document["fits"]] == [
        "torch213-cxx11-cpu-x86_64-linux",
        "torch-stable-abi213-cpu-x86_64-linux",
        "torch-cpu",
    ]
    assert document["problems"] == []
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "glibc 2.36" in out
    facts = dict(line.split(maxsplit=1) for line in out.partition("\n\n")[0].splitlines())
    assert (facts["free-threaded"], facts["cxx11-abi"], facts["cpu-features"]) == ("no", "yes", "-")
    assert "torch-stable-abi213-cpu-x86_64-linux" in out
    assert "PROBLEM" not in out


def test_doctor_shows_backends_devices_driver_and_problems(
    this_process: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    this_process(backends=(HostBackend("cuda", (13, 2), ("9.0", "12.0"), (12, 4)), HostBackend("cpu")))
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "cuda 13.2, device 9.0, device 12.0, driver for 12.4; cpu\n" in out
    assert "torch213-cxx11-cu132-x86_64-linux" in out
    assert "torch is built with CUDA 13.2, and the driver is for 12.4  install a driver for CUDA 13.0 or newer" in out


@pytest.mark.usefixtures("registry")
def test_doctor_tells_the_rest_where_torch_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise HostError("torch is installed, but importing it failed", hint="repair it")

    monkeypatch.setattr("kernelworks.host.detect", broken)
    assert main(["doctor", "--json"]) == 12
    document = json.loads(capsys.readouterr().out)
    assert document["problems"] == [{"reason": "torch is installed, but importing it failed", "remedy": "repair it"}]
    assert document["host"]["torch"] is None
    assert main(["doctor"]) == 12
    out, err = capsys.readouterr()
    assert "importing it failed" in out
    assert err.startswith("error: torch is installed")


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (["explain", "org/none"], "repository", 10),
        (["explain", "none"], "usage", 2),
        (["explain", "org/demo", "--version", "x"], "usage", 2),
        (["explain", "org/demo", "--registry", "/nowhere"], "transport", 11),
        (["nonsense"], "usage", 2),
        (["explain"], "usage", 2),
        (["explain", "org/demo", "more"], "usage", 2),
        (["explain", "org/demo", "--vers", "1"], "usage", 2),
        ([], "usage", 2),
    ],
)
def test_an_error_is_one_document_with_the_exit_code_of_its_class(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: str, exit_code: int
) -> None:
    assert main([*arguments, "--json"]) == exit_code
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == code
    assert err == ""
    assert main(arguments) == exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")


@pytest.mark.usefixtures("registry")
def test_a_document_can_be_written_whatever_bytes_the_arguments_had(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "\udcff/demo", "--json"]) == 2
    assert capsys.readouterr().out.isascii()


@pytest.mark.usefixtures("registry")
def test_a_shortened_option_is_refused_so_that_json_is_never_meant_and_missed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--js"]) == 2
    assert "--js" in capsys.readouterr().err


@pytest.mark.usefixtures("registry")
def test_what_the_system_refuses_is_an_error_of_the_host(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    (folder / "kernel.json").mkdir(parents=True)
    (folder / "metadata.json").symlink_to("/proc/self/mem")  # cannot be read at its start by anyone
    monkeypatch.setenv("LOCAL_KERNELS", f"org/demo={folder}")
    assert main(["explain", "org/demo", "--json"]) == 12
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "host"
    assert err == ""
    assert main(["explain", "org/demo"]) == 12
    assert capsys.readouterr().err.startswith("error: this system refuses: [Errno 5] Input/output error")


def test_an_interrupt_ends_with_the_code_of_the_signal_and_no_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kernelworks.host.detect", interrupted)
    assert main(["doctor", "--json"]) == 130
    assert capsys.readouterr() == ("", "")


def test_help_and_version_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit) as caught:
            main([option])
        assert caught.value.code == 0
    assert "explain" in capsys.readouterr().out
