"""What `deploy/` holds is run: the unit's and the container's commands, and TLS by nginx in front of a registry."""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from kernelworks_server.cli import app
from kernelworks_server.config import Limits

if TYPE_CHECKING:
    from conftest import Server

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = "#!{python}\nfrom kernelworks_server.cli import main\nmain()\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """`kernel-registry`, as pip would install it."""
    path = tmp_path / "bin" / "kernel-registry"
    path.parent.mkdir()
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path


def unit() -> configparser.RawConfigParser:
    parsed = configparser.RawConfigParser(strict=False)
    parsed.read(DEPLOY / "kernel-registry.service")
    return parsed


def instructions() -> dict[str, str]:
    """The last instruction of each kind in the Containerfile."""
    text = (DEPLOY / "Containerfile").read_text()
    return dict(line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))


@contextmanager
def serving(command: list[str], root: Path) -> Iterator[str]:
    """The address at which this command serves, on a free port instead of its own; it stops when it is told to."""
    command = [*command, "--port", "0", "--json"]
    environment = {**os.environ, "KERNEL_REGISTRY_ROOT": str(root)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield re.findall(r'"url": "(.*)"', process.stdout.readline() + process.stdout.readline())[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_unit_serves_the_folder_that_systemd_keeps_for_it(program: Path, tmp_path: Path) -> None:
    service = unit()["Service"]
    _, *arguments = shlex.split(service["ExecStart"])
    assert "Environment=KERNEL_REGISTRY_ROOT=%S/kernel-registry\n" in (DEPLOY / "kernel-registry.service").read_text()
    with (
        serving([str(program), *arguments], tmp_path / "state") as url,
        urllib.request.urlopen(f"{url}/healthz") as answer,  # noqa: S310  # loopback
    ):
        assert json.load(answer)["status"] == "ok"
    assert (tmp_path / "state" / "registry.sqlite").is_file()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_no_fault_with_the_unit_and_little_exposure(program: Path, tmp_path: Path) -> None:
    text = (DEPLOY / "kernel-registry.service").read_text()
    path = tmp_path / "kernel-registry.service"
    path.write_text(text.replace("/opt/kernel-registry/bin/kernel-registry", str(program)))
    for check in (["verify"], ["security", "--offline=true", "--threshold=20"]):
        done = subprocess.run(["systemd-analyze", *check, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_container_serves_as_a_user_without_rights_and_tells_its_health(program: Path, tmp_path: Path) -> None:
    wanted = instructions()
    assert wanted["USER"] == "10001"
    entry, default = json.loads(wanted["ENTRYPOINT"]), json.loads(wanted["CMD"])
    assert entry == [program.name]
    assert f"KERNEL_REGISTRY_ROOT={wanted['VOLUME']}" in wanted["ENV"]
    assert default[-1] == wanted["EXPOSE"]
    probe = json.loads(wanted["HEALTHCHECK"].partition("CMD ")[2])
    assert f":{wanted['EXPOSE']}/healthz" in probe[-1]
    with serving([str(program), *default], tmp_path / "data") as url:
        port = url.rpartition(":")[2]
        healthy = [sys.executable, *probe[1:-1], probe[-1].replace(wanted["EXPOSE"], port)]
        subprocess.run(healthy, check=True)
    assert subprocess.run(healthy, check=False, stderr=subprocess.DEVNULL).returncode != 0


def test_the_wheel_that_the_container_installs_holds_all_of_a_registry(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(DEPLOY.parent)], check=True)
    (wheel,) = tmp_path.glob("kernelworks-*.whl")
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", str(wheel)], check=True)
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # what it depends on
    with (
        serving([str(python.with_name("kernel-registry")), "serve"], tmp_path / "data") as url,
        urllib.request.urlopen(url) as page,  # noqa: S310  # loopback
    ):
        assert b"<html" in page.read()


@pytest.fixture
def nginx(tmp_path: Path, server: Server) -> Iterator[tuple[str, ssl.SSLContext]]:
    """(the address of nginx in front of the registry, what trusts it)."""
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("nginx or openssl is not installed")
    for name in ("key", "crt"):
        (tmp_path / f"kernel-registry.{name}").touch()
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(tmp_path / "kernel-registry.key"), "-out", str(tmp_path / "kernel-registry.crt")]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, *files]
    subprocess.run(make, check=True, capture_output=True)
    held = socket.create_server(("127.0.0.1", 0))
    port = held.getsockname()[1]
    site = (DEPLOY / "nginx.conf").read_text()
    for ours, here in (
        ("127.0.0.1:8000", server.url.removeprefix("http://")),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/nginx/", f"{tmp_path}/"),
    ):
        assert ours in site
        site = site.replace(ours, here)
    paths = " ".join(f"{name}_temp_path {tmp_path}/{name};" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    paths += f" client_body_temp_path {tmp_path}/body; access_log off;"
    config = tmp_path / "nginx.conf"
    user = "user root; " if os.geteuid() == 0 else ""
    config.write_text(
        f"{user}daemon off; pid {tmp_path}/nginx.pid; error_log stderr; events {{}}\nhttp {{ {paths}\n{site}}}\n"
    )
    command = ["nginx", "-e", "stderr", "-c", str(config)]
    subprocess.run([*command, "-t"], check=True)
    with held:  # nginx inherits it, as from one that it replaces: nobody else can take the port, and who asks waits
        environment = {**os.environ, "NGINX": f"{held.fileno()};"}
        process = subprocess.Popen(command, env=environment, pass_fds=[held.fileno()])
    with process:
        try:
            yield (
                f"https://localhost:{port}",
                ssl.create_default_context(cafile=str(tmp_path / "kernel-registry.crt")),
            )
        finally:
            process.send_signal(signal.SIGQUIT)


def test_the_guide_tells_the_variables_and_limits_that_there_are() -> None:
    guide = (DEPLOY.parent / "docs" / "registry.md").read_text()
    command: Any = typer.main.get_command(app)
    variables = {option.envvar for each in command.commands.values() for option in each.params if option.envvar}
    limits = Limits()
    assert variables == set(re.findall(r"KERNEL_REGISTRY_[A-Z_]+", guide))
    assert f"| {limits.file >> 30} GiB; from {limits.lfs_threshold >> 20} MiB on" in guide
    assert f"| {limits.operations:,} files, and {limits.commit >> 20} MiB of small ones" in guide
    assert f"| {limits.folder:,} |" in guide
    assert f"| {limits.body >> 20} MiB |" in guide
    assert f"| {limits.api.requests:,} and {limits.files.requests:,} |" in guide
    assert f"for {limits.grace // timedelta(hours=1)} hours not committed" in guide
    assert f"{limits.xorb_age // timedelta(weeks=1)} weeks ago".replace("4", "four") in guide


@pytest.mark.server
def test_behind_nginx_addresses_are_those_that_clients_know_and_paths_stay_as_they_were_sent(
    server: Server, nginx: tuple[str, ssl.SSLContext], caplog: pytest.LogCaptureFixture
) -> None:
    url, context = nginx

    def ask(path: str, body: bytes | None = None, method: str | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {server.token}", "X-Forwarded-For": "203.0.113.7"}
        request = urllib.request.Request(path, body, headers, method=method)  # noqa: S310  # loopback
        with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310
            return bytes(answer.read())

    ask(f"{url}/api/repos/create", b'{"name": "relu", "organization": "admin", "type": "kernel"}')
    content = os.urandom(3 << 20)  # more than nginx takes by itself
    oid = hashlib.sha256(content).hexdigest()
    wanted = {"operation": "upload", "objects": [{"oid": oid, "size": len(content)}]}
    batch = json.loads(ask(f"{url}/kernels/admin/relu.git/info/lfs/objects/batch", json.dumps(wanted).encode()))
    href = batch["objects"][0]["actions"]["upload"]["href"]
    assert href.startswith(f"{url}/")
    ask(href, content, "PUT")
    lines = [
        {"key": "header", "value": {"summary": "s", "description": ""}},
        {"key": "lfsFile", "value": {"path": "a b/%2F é", "algo": "sha256", "oid": oid, "size": len(content)}},
    ]
    ask(f"{url}/api/kernels/admin/relu/commit/main", "\n".join(map(json.dumps, lines)).encode())
    with caplog.at_level("INFO", logger="kernelworks_server.requests"):
        assert ask(f"{url}/kernels/admin/relu/resolve/main/a%20b/%252F%20%C3%A9") == content
        while not (told := [record.__dict__["facts"] for record in caplog.records if "facts" in record.__dict__]):
            time.sleep(0.001)  # it is logged when its answer is out
    (facts,) = told
    assert facts["client"] == "127.0.0.1"  # not what the client claims to have come from
