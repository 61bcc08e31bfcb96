from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kernelworks.cli import main
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
    assert 'pip install "torch>=2.14"' in err
    assert main(["explain", "org/demo", "--json"]) == 13
    out, err = capsys.readouterr()
    assert json.loads(out)["chosen"] is None
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


def test_doctor_says_what_this_process_is(registry: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["registry"] == str(registry.root)
    assert document["host"]["backends"] == [{"name": "cpu", "version": None, "devices": []}]
    assert main(["doctor"]) == 0
    assert "glibc 2.36" in capsys.readouterr().out


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (["explain", "org/none"], "repository", 10),
        (["explain", "none"], "usage", 2),
        (["explain", "org/demo", "--version", "x"], "usage", 2),
        (["explain", "org/demo", "--registry", "/nowhere"], "transport", 11),
        (["nonsense"], "usage", 2),
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


def test_help_and_version_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit) as caught:
            main([option])
        assert caught.value.code == 0
    assert "explain" in capsys.readouterr().out
