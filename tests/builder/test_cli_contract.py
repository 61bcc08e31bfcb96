"""What holds for every command of `kernel-build`: its help, and `--json` as the one document on stdout."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.main import get_command

from kernelworks.errors import HostError, UsageError
from kernelworks_build.cli import app, main
from kernelworks_build.errors import ManifestError, PackError, ToolchainError

RUNS = {
    "init": ("init toy-kernel", 0),
    "check": ("check", ManifestError.exit_code),
    "migrate": ("migrate", ManifestError.exit_code),
    "plan": ("plan", ManifestError.exit_code),
    "build": ("build", ManifestError.exit_code),
    "shell": ("shell", ManifestError.exit_code),
    "audit": ("audit none.whl", PackError.exit_code),
    "rebuild": ("rebuild none.whl", PackError.exit_code),
    "test": ("test", ManifestError.exit_code),
    "publish": ("publish", UsageError.exit_code),
    "export": ("export --out there", ManifestError.exit_code),
    "lock": ("lock", UsageError.exit_code),
    "toolchain push": ("toolchain push --to there --only none", ToolchainError.exit_code),
    "toolchain pull": ("toolchain pull --from there --only tools", ToolchainError.exit_code),
    "cache info": ("cache info", 0),
    "cache gc": ("cache gc", 0),
    "doctor": ("doctor", HostError.exit_code),
}
"""Every command -> a run of it in an empty folder, without a network, and its exit code."""

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def run(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs the program in an empty folder; gives its exit code, stdout and stderr."""
    for name in ("KERNELWORKS_REGISTRY", "HF_ENDPOINT", "KERNELWORKS_ARTIFACTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KERNELWORKS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))

    def program(arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kernel-build", *shlex.split(arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return program


def commands(group: Any = None, *names: str) -> Iterator[str]:
    """All that can be run, as it is written."""
    group = group or get_command(app)
    context: Any = None  # none of ours asks for it
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, *names, name)
        else:
            yield " ".join([*names, name])


def test_the_runs_are_those_of_every_command() -> None:
    assert list(RUNS) == list(commands())


@pytest.mark.parametrize("command", RUNS)
def test_every_result_and_every_error_is_one_document(run: Run, command: str) -> None:
    arguments, expected = RUNS[command]
    code, stdout, _ = run(f"{arguments} --json")
    document = json.loads(stdout)
    assert code == expected, stdout
    if "error" in document:
        assert document["error"].keys() == {"code", "message", "hint", "context"}
        assert document["error"]["message"][:1] not in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize("command", [name for name, (_, code) in RUNS.items() if code not in {0, HostError.exit_code}])
def test_every_error_in_words_is_on_stderr_alone_with_the_same_code(run: Run, command: str) -> None:
    code, stdout, stderr = run(RUNS[command][0])
    assert (code, stdout) == (RUNS[command][1], "")
    assert stderr.strip()
    assert "Traceback" not in stderr


@pytest.mark.parametrize("command", RUNS)
def test_a_mistyped_option_is_one_document_that_names_it_and_the_help(run: Run, command: str) -> None:
    code, stdout, stderr = run(f"{command} --no-such --json")
    error = json.loads(stdout)["error"]
    assert (code, error["code"], stderr) == (2, "usage", "")
    assert "--no-such" in error["message"]
    assert error["hint"] == f"see `kernel-build {command} --help`"


@pytest.mark.parametrize("command", RUNS)
def test_every_help_says_what_the_command_does_and_what_each_option_is(run: Run, command: str) -> None:
    code, stdout, _ = run(f"{command} --help")
    usage, _, summary, *_ = stdout.splitlines()
    assert (code, usage.split(" [")[0]) == (0, f"Usage: kernel-build {command}")
    assert summary.startswith("  ")
    assert "--json" in stdout
    for parameter in _parameters(command):
        assert getattr(parameter, "help", None), parameter.name


@pytest.mark.parametrize("group", ["", "toolchain ", "cache "])
def test_the_list_of_commands_says_each_in_a_whole_sentence(run: Run, group: str) -> None:
    _, stdout, _ = run(f"{group}--help")
    listed = stdout.partition("Commands:\n")[2].splitlines()
    assert listed
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def _parameters(command: str) -> Iterator[Any]:
    found: Any = get_command(app)
    for name in command.split():
        found = found.get_command(None, name)
    yield from (one for one in found.params if one.name != "help")
