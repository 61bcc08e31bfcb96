"""Registries behind TLS: proved by the certificates that this machine trusts, or not asked."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kernelworks.errors import TransportError
from kernelworks.transport.client import Client


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """A client that does not trust it hangs up."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of `localhost`, signed by itself, with its key in `key.pem` beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("the program `openssl`, which makes certificates, is not installed")
    made = tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    keys = ["-keyout", str(tmp_path / "key.pem"), "-out", str(made)]
    subprocess.run(["openssl", "req", *kind, *subject, *keys], check=True, capture_output=True)
    return made


@pytest.fixture
def url(certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_registry_whose_certificate_is_trusted_answers(
    url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert Client(url).document("greeting")[1] == b"hello"


def test_a_registry_whose_certificate_nobody_trusts_is_not_asked(url: str) -> None:
    with pytest.raises(TransportError, match="certificate verify failed"):
        Client(url).document("greeting")


def test_a_registry_of_another_name_than_its_certificate_is_not_asked(
    url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(TransportError, match=r"certificate is not valid for '127\.0\.0\.1'"):
        Client(url.replace("localhost", "127.0.0.1")).document("greeting")


def test_whom_to_trust_is_not_read_for_a_registry_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> ssl.SSLContext:
        raise AssertionError

    monkeypatch.setattr(ssl, "create_default_context", read)
    with pytest.raises(TransportError, match="cannot be reached"):
        Client("https://127.0.0.1:1").document("greeting")
