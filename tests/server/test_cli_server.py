"""The program `kernel-registry`, as a process: it serves, stops, and manages people beside a running server."""

# ruff: noqa: S310  # every address is that of the server under test

from __future__ import annotations

import itertools
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROGRAM = [sys.executable, "-c", "from kernelworks_server.cli import main; main()"]

pytestmark = pytest.mark.server


@dataclass
class Running:
    url: str
    token: str | None
    process: subprocess.Popen[str]
    log: list[dict[str, Any]]


@contextmanager
def serving(root: Path) -> Iterator[Running]:
    """The program on a free port; after the block it was asked to stop, and `log` has what it wrote."""
    command = [*PROGRAM, "serve", "--root", str(root), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = list(itertools.takewhile(lambda line: line != "}\n", process.stdout))
        running = Running(**json.loads("".join([*lines, "}"])), process=process, log=[])
        try:
            yield running
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=30)
            running.log += [json.loads(line) for line in errors.splitlines()]


def run(*arguments: str, root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments, "--root", str(root)], capture_output=True, text=True, check=False)


def document(*arguments: str, root: Path) -> Any:
    return json.loads(run(*arguments, "--json", root=root).stdout)


def whoami(url: str, token: str) -> int:
    """The status of a request that any valid token may make."""
    request = urllib.request.Request(f"{url}/api/whoami-v2", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_first_start_tells_a_token_and_the_second_does_not(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        assert first.token is not None
        assert whoami(first.url, first.token) == 200
    assert first.process.returncode == 0
    with serving(tmp_path) as second:
        assert second.token is None
        assert whoami(second.url, first.token) == 200


def test_health_is_told_and_every_request_logged_without_its_secrets(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with urllib.request.urlopen(f"{server.url}/healthz?signature=hidden") as answer:
            assert json.load(answer)["status"] == "ok"
        whoami(server.url, str(server.token))
    lines = [line for line in server.log if line["message"] == "request"]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/healthz", 200),
        ("GET", "/api/whoami-v2", 200),
    ]
    assert "hidden" not in json.dumps(server.log)
    assert str(server.token) not in json.dumps(server.log)


def test_people_are_managed_beside_a_running_server(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for arguments in (
            ("user", "add", "alice"),
            ("org", "add", "acme"),
            ("org", "member", "acme", "alice", "--role", "write"),
            ("trust", "acme"),
        ):
            assert run(*arguments, root=tmp_path).returncode == 0
        token = document("token", "create", "alice", "--label", "ci", "--scope", "write", root=tmp_path)["token"]
        assert whoami(server.url, token) == 200
        assert run("user", "list", root=tmp_path).stdout == "admin (operator)\nalice\n"
        assert run("org", "list", root=tmp_path).stdout == "acme (trusted)\n"
        assert document("org", "members", "acme", root=tmp_path) == {"org": "acme", "members": {"alice": "write"}}
        assert run("token", "revoke", "alice", "ci", root=tmp_path).returncode == 0
        (known,) = document("token", "list", "alice", root=tmp_path)["tokens"]
        assert (known["label"], known["scope"], known["revoked"] is None) == ("ci", "write", False)
        assert whoami(server.url, token) == 401
        assert set(document("gc", root=tmp_path).values()) == {0}


def test_an_answer_that_runs_is_finished_before_the_server_stops(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            begin, end = b'{"content": "", ', b'"repoType": "kernel"}'
            length = len(begin + end)
            client.sendall(b"POST /api/validate-yaml HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length)
            client.sendall(begin)
            with urllib.request.urlopen(f"{server.url}/healthz"):
                pass  # by now the first request is being read
            server.process.send_signal(signal.SIGTERM)
            client.sendall(end)
            assert client.recv(12) == b"HTTP/1.1 200"
    assert server.process.returncode == 0


def test_a_port_in_use_costs_nothing_but_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        failed = run("serve", "--port", port, root=tmp_path / "new")
    assert failed.returncode == 12
    assert f"cannot listen on `127.0.0.1` port {port}" in failed.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("trust", "absent"), 30, "no organisation is called `absent`"),
        (("gc", "--hours", "many"), 2, "should be a valid number"),
        (("tokn", "list"), 2, "no such command `tokn`"),
        (("user", "add"), 2, "missing argument `name`"),
    ],
)
def test_refusals_have_words_and_the_code_of_their_family(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    plain = run(*arguments, root=tmp_path)
    assert (plain.returncode, plain.stdout) == (code, "")
    assert plain.stderr.startswith("error: ")
    assert words in plain.stderr
    as_json = run(*arguments, "--json", root=tmp_path)
    assert as_json.returncode == code
    assert words in json.loads(as_json.stdout)["error"]["message"]
