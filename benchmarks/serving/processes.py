"""The programs that are measured: started on a core of their own, their CPU time and memory told by the kernel."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CLIENT_CORE", "Program", "bare", "nginx", "registry"]

SERVER_CORE, CLIENT_CORE = (*sorted(os.sched_getaffinity(0)), *sorted(os.sched_getaffinity(0)))[:2]
"""One core each, the same one where this machine lends only one."""

_START_SECONDS = 30
_TICKS = os.sysconf("SC_CLK_TCK")
_REGISTRY = [sys.executable, "-c", "from kernelworks_server.cli import main; main()", "serve", "--port", "0", "--json"]
_UNLIMITED = ["--api-rate", "0", "--file-rate", "0"]
_BARE = """
import sys, uvicorn
body = b"x" * int(sys.argv[2])

async def answer(scope, receive, send):
    headers = [(b"content-type", b"application/octet-stream"), (b"content-length", sys.argv[2].encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

uvicorn.run(answer, port=int(sys.argv[1]), log_config=None, access_log=False, lifespan="off", ws="none")
"""
_NGINX = """
daemon off; master_process off; worker_processes 1; pid nginx.pid;
events {{}}
http {{
    access_log off; sendfile on; tcp_nopush on; default_type application/octet-stream;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


@dataclass(frozen=True)
class Program:
    """A server that answers on this port of the loopback; `token` is the operator's, of a registry that is new."""

    port: int
    process: subprocess.Popen[str]
    token: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """User and system time so far, to a hundredth of a second."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / _TICKS

    def peak_bytes(self) -> int:
        """The most memory that was resident so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10


@contextmanager
def registry(root: Path, *options: str, token: str = "") -> Iterator[Program]:
    """`kernel-registry serve` without rate limits on this root; `token` is told where it is known from before."""
    with _running([*_REGISTRY, *_UNLIMITED, "--root", str(root), *options]) as process:
        assert process.stdout is not None
        told = json.loads("".join(itertools.takewhile(lambda line: line != "}\n", process.stdout)) + "}")
        yield Program(int(told["url"].rpartition(":")[2]), process, told["token"] or token)


@contextmanager
def bare(size: int) -> Iterator[Program]:
    """The same HTTP server with an application that does nothing but answer `size` bytes: what is left to gain."""
    port = _free_port()
    with _running([sys.executable, "-c", _BARE, str(port), str(size)]) as process:
        _await(port)
        yield Program(port, process)


@contextmanager
def nginx(root: Path, scratch: Path) -> Iterator[Program | None]:
    """Debian's nginx with `sendfile`, which serves the files in `root`; None where it is not installed."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        yield None
        return
    port = _free_port()
    scratch.mkdir()
    (scratch / "nginx.conf").write_text(_NGINX.format(port=port, root=root))
    with _running([program, "-p", str(scratch), "-c", "nginx.conf", "-e", "stderr"]) as process:
        _await(port)
        yield Program(port, process)


@contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        os.sched_setaffinity(process.pid, {SERVER_CORE})  # threads inherit it
        try:
            yield process
        finally:
            process.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _await(port: int) -> None:
    """Return when something answers on this port."""
    for _ in range(_START_SECONDS * 100):
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise TimeoutError(f"nothing answers on port {port}")
